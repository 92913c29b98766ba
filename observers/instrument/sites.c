// SPDX-License-Identifier: GPL-2.0-or-later
#include "sites.h"

#include "site_files.h"

#define CALL_STACKS ((Addr)0x680000000000)
#define OUTERMOST (~(Addr)0)
#define NO_CALL (~(UInt)0)    // in a note: where a handler has interrupted
#define BOTTOM (NO_CALL - 1)  // where the thread began
enum {
  CALLS_PER_THREAD = 1 << 20,
  SPARE_CALLS = 128,  // for handlers, which note a call without looking for the end
  MOST_NODES = 1 << 24,
  FIRST_BITS = 12
};

typedef struct {
  Addr stack_pointer;  // at the callee's first instruction: where the return address lies
  UInt node;           // of the tree; 0: not looked up
  UInt call;           // number of the call instruction
} Call;

typedef struct {
  UInt caller;
  UInt call;
} Node;

typedef struct {
  Addr address;
  const DebugInfo* info;  // of the object there when the code was translated
  UInt frame;             // row in this process's file, from 1; 0: not written
} CallInstruction;

typedef struct _Known {
  struct _Known* next;
  UWord address;
  UInt call;
} Known;

Bool sites_were_asked;
static CallInstruction* calls;
static UInt calls_used, calls_capacity;
static VgHashTable* known_calls;

static Node* nodes;  // from 1
static UInt nodes_used = 1, nodes_capacity;
static UInt* table;  // of nodes, open addressing; 0: empty
static UInt table_bits;
static UInt frames_used;

void sites_initialise(void) {
  sites_were_asked = True;
  known_calls = VG_(HT_construct)("tare.calls");
  table_bits = FIRST_BITS;
  table = VG_(calloc)("tare.nodes", (SizeT)1 << table_bits, sizeof *table);
}

// ---- calls ----

static UInt number_of(Addr address) {
  const DebugInfo* const info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
  Known* known = VG_(HT_lookup)(known_calls, address);
  if (known != NULL && calls[known->call].info == info) return known->call;
  if (calls_used == calls_capacity) {
    calls_capacity = calls_capacity == 0 ? 1024 : 2 * calls_capacity;
    calls = VG_(realloc)("tare.calls", calls, calls_capacity * sizeof *calls);
  }
  calls[calls_used] = (CallInstruction){address, info, 0};
  if (known == NULL) {
    known = VG_(malloc)("tare.call", sizeof *known);
    known->address = address;
    VG_(HT_add_node)(known_calls, known);
  }
  known->call = calls_used;
  return calls_used++;
}

// ---- the shadow ----

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
  store(translation, here, get(translation, translation->stack_pointer));
  store(translation, binary(translation, Iop_Add64, here, number(offsetof(Call, node))),
        number((ULong)number_of(call) << 32));
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
  IRExpr* const kept = assign(translation, Ity_I64,
                              IRExpr_ITE(is_over(translation, last, stack_pointer), last, next));
  put_register(translation, offsetof(Registers, calls), kept);
  // An exception or a longjmp ends several calls at once.
  call_if(translation, is_over(translation, call_before(translation, kept), stack_pointer),
          "unwind_calls", unwind_calls, number(0));
}

void sites_add_jump(Translation* translation) {
  IRExpr* const stack_pointer = get(translation, translation->stack_pointer);
  IRExpr* const next = get_register(translation, offsetof(Registers, calls));
  call_if(translation, is_over(translation, call_before(translation, next), stack_pointer),
          "unwind_calls", unwind_calls, number(0));
}

void sites_start_thread(ThreadId id, Registers* registers) {
  Call* const bottom = bottom_of(id);
  const SizeT bytes = CALLS_PER_THREAD * sizeof *bottom;
  // A thread that had this number before has left its memory here.
  const SysRes result = VG_(am_do_mmap_NO_NOTIFY)(
      (Addr)bottom, bytes, VKI_PROT_READ | VKI_PROT_WRITE,
      VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_NORESERVE | VKI_MAP_FIXED, -1, 0);
  tl_assert(!sr_isError(result));
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

// ---- the tree ----

static UInt home(UInt caller, UInt call) {
  const ULong key = ((ULong)caller << 32) | call;
  return (UInt)((key * 0x9e3779b97f4a7c15ULL) >> (64 - table_bits));
}

static UInt* place_of(UInt caller, UInt call) {
  const UInt mask = ((UInt)1 << table_bits) - 1;
  UInt index = home(caller, call);
  while (table[index] != 0 &&
         (nodes[table[index]].caller != caller || nodes[table[index]].call != call))
    index = (index + 1) & mask;
  return &table[index];
}

static void grow_table(void) {
  VG_(free)(table);
  ++table_bits;
  table = VG_(calloc)("tare.nodes", (SizeT)1 << table_bits, sizeof *table);
  for (UInt node = 1; node < nodes_used; ++node)
    *place_of(nodes[node].caller, nodes[node].call) = node;
}

static UInt child_of(UInt caller, UInt call) {
  UInt* place = place_of(caller, call);
  if (*place != 0) return *place;
  if (nodes_used == MOST_NODES) return caller;
  if (nodes_used == nodes_capacity || nodes_capacity == 0) {
    nodes_capacity = nodes_capacity == 0 ? 1024 : 2 * nodes_capacity;
    nodes = VG_(realloc)("tare.node", nodes, nodes_capacity * sizeof *nodes);
  }
  const UInt node = nodes_used++;
  nodes[node] = (Node){caller, call};
  *place = node;
  if (nodes_used > (UInt)1 << (table_bits - 1)) grow_table();
  if (calls[call].frame == 0) {
    site_files_add_frame(calls[call].address);
    calls[call].frame = ++frames_used;
  }
  site_files_add_site(caller, calls[call].frame - 1, calls[call].address);
  return node;
}

// Of the call before `next`.
static UInt node_before(Call* next) {
  Call* call = next - 1;
  while (call->node == 0 && call->call != BOTTOM) --call;
  UInt node = call->node;
  for (++call; call < next; ++call) {
    if (call->call != NO_CALL) node = child_of(node, call->call);
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
  nodes_used = 1;
  frames_used = 0;
  VG_(memset)(table, 0, ((SizeT)1 << table_bits) * sizeof *table);
  for (UInt call = 0; call < calls_used; ++call) calls[call].frame = 0;
  for (Call* call = bottom_of(id); call < (Call*)registers->calls; ++call) call->node = 0;
}
