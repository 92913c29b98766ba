// SPDX-License-Identifier: GPL-2.0-or-later
#include "shadow.h"

#include "platform/linux.h"
#include "tree.h"

#define OUTERMOST (~(Addr)0)
#define NO_CALL (~(UInt)0)    // in a note: where a handler has interrupted
#define BOTTOM (NO_CALL - 1)  // where the thread began
enum {
  CALLS_PER_THREAD = 1 << 20,
  SPARE_CALLS = 128,  // for handlers, which note a call without looking for the end
};

typedef struct {
  Addr stack_pointer;  // guest_call_place() at the callee's first instruction
  UInt node;           // of the tree; 0: not looked up
  UInt call;           // number of the call instruction
} Call;

Bool sites_were_asked;

void sites_initialise(void) {
  sites_were_asked = True;
  tree_initialise();
}

static Call* bottom_of(ThreadId id) { return (Call*)CALL_STACKS + (SizeT)id * CALLS_PER_THREAD; }

// Behind the note of the innermost call that put its return address at `stack_pointer` or above.
static Call* behind_call(const Registers* registers, Addr stack_pointer) {
  Call* next = (Call*)registers->calls;
  while (next[-1].stack_pointer < stack_pointer) --next;
  return next;
}

static void drop_returned(Registers* registers, Addr stack_pointer) {
  registers->calls = (Addr)behind_call(registers, stack_pointer);
}

static HELPER void unwind_calls(GuestState* state, ULong unused) {
  (void)unused;
  drop_returned(registers_of(state), state->GUEST_STACK_POINTER);
}

// The older half of a very deep recursion is forgotten.
static HELPER void halve_calls(GuestState* state, ULong unused) {
  (void)unused;
  enum { KEPT = CALLS_PER_THREAD / 2 };
  Registers* const registers = registers_of(state);
  Call* const next = (Call*)registers->calls;
  Call* const bottom = (Call*)registers->calls_end - (CALLS_PER_THREAD - SPARE_CALLS);
  VG_(memmove)(bottom + 1, next - KEPT, KEPT * sizeof *next);
  registers->calls = (Addr)(bottom + 1 + KEPT);
}

static IRExpr* is_over(Translation* translation, IRExpr* call, IRExpr* stack_pointer) {
  return binary(translation, Iop_CmpLT64U, load(translation, Ity_I64, call), stack_pointer);
}

static IRExpr* call_before(Translation* translation, IRExpr* call) {
  return binary(translation, Iop_Sub64, call, number(sizeof(Call)));
}

void sites_add_call(Translation* translation, Addr call) {
  IRExpr* const here = get_register(translation, offsetof(Registers, calls));
  IRExpr* const stack_pointer = get(translation, translation->stack_pointer);
  store(translation, here, binary(translation, Iop_Sub64, stack_pointer, number(CALL_PLACE)));
  store(translation, binary(translation, Iop_Add64, here, number(offsetof(Call, node))),
        number((ULong)call_number(call) << 32));
  IRExpr* const next = binary(translation, Iop_Add64, here, number(sizeof(Call)));
  put_register(translation, offsetof(Registers, calls), next);
  IRExpr* const end = get_register(translation, offsetof(Registers, calls_end));
  call_if(translation, binary(translation, Iop_CmpLT64U, end, next), "halve_calls", halve_calls,
          number(0));
}

void sites_add_return(Translation* translation) {
  IRExpr* const stack_pointer = get(translation, translation->stack_pointer);
  IRExpr* const next = get_register(translation, offsetof(Registers, calls));
  IRExpr* const last = call_before(translation, next);
  IRExpr* const remaining = assign(
      translation, Ity_I64, IRExpr_ITE(is_over(translation, last, stack_pointer), last, next));
  put_register(translation, offsetof(Registers, calls), remaining);
  // An exception or a longjmp ends several calls at once.
  call_if(translation, is_over(translation, call_before(translation, remaining), stack_pointer),
          "unwind_calls", unwind_calls, number(0));
}

void sites_add_jump(Translation* translation) {
  IRExpr* const end = get_end_of_calls(translation);
  IRExpr* const next = get_register(translation, offsetof(Registers, calls));
  call_if(translation, is_over(translation, call_before(translation, next), end), "unwind_calls",
          unwind_calls, number(0));
}

void sites_start_thread(ThreadId id, Registers* registers) {
  Call* const bottom = bottom_of(id);
  // A thread that had this number before has left its memory here.
  tl_assert(map_at((Addr)bottom, CALLS_PER_THREAD * sizeof *bottom,
                   VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, -1));
  *bottom = (Call){OUTERMOST, 0, BOTTOM};
  registers->calls = (Addr)(bottom + 1);
  registers->calls_end = (Addr)(bottom + CALLS_PER_THREAD - SPARE_CALLS);
}

Addr sites_enter_handler(Registers* registers) {
  const Addr before = registers->calls;
  Call* const barrier = (Call*)before;
  *barrier = (Call){OUTERMOST, 0, NO_CALL};
  registers->calls = (Addr)(barrier + 1);
  return before;
}

void sites_leave_handler(Registers* registers, Addr before) { registers->calls = before; }

// Of the call before `next`.
static UInt node_before(Call* next) {
  Call* call = next - 1;
  while (call->node == 0 && call->call != BOTTOM) --call;
  UInt node = call->node;
  for (++call; call < next; ++call) {
    if (call->call != NO_CALL) node = tree_child(node, call->call);
    call->node = node;
  }
  return node;
}

UInt site_of(Registers* registers, Addr stack_pointer) {
  drop_returned(registers, stack_pointer);
  return node_before((Call*)registers->calls);
}

UInt site_of_outer(const Registers* registers, Addr stack_pointer) {
  return node_before(behind_call(registers, stack_pointer));
}

void sites_start_child(Registers* registers, ThreadId id) {
  tree_start_child();
  for (Call* call = bottom_of(id); call < (Call*)registers->calls; ++call) call->node = 0;
}
