// SPDX-License-Identifier: GPL-2.0-or-later
#include "translate.h"

#include "entries.h"
#include "events.h"
#include "executions.h"
#include "memsys/feed.h"
#include "objects.h"
#include "pointers.h"
#include "sites.h"
#include "threads.h"
#include "trace.h"
#include "translation.h"
#include "uses.h"

// The core asks this of each address to which a block might go on, and of each at which one begins;
// in the first case without a place for `is_wrapper`. Where the answer is another address than it
// asked for the block does not go on. So entries always begin a block, which they must: within one
// the registers of the program are not up to date.
extern Addr __real_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper);
Addr __wrap_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper);
Addr __wrap_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper) {
  if (is_wrapper == NULL && entry_at(address) != NULL) return address + 1;
  return __real_vgPlain_redir_do_lookup(address, is_wrapper);
}

static void add_entry(Translation* translation, const Entry* entry) {
  bring_up_to_date(translation);
  if (feed_is_on()) feed_before_call(translation);
  IRExpr* const inside = get_address_register(translation, offsetof(Registers, inside));
  if (entry->shape == WORKS_INSIDE) {
    IRExpr* const is_inside = binary(translation, WORD_EQUAL, inside, word(1));
    call_if(translation, is_inside, "enter_memory_function", enter_memory_function,
            word((Addr)entry));
  } else {
    IRExpr* const outside = binary(translation, WORD_EQUAL, inside, word(0));
    call_if(translation, outside, "enter_operation", enter_operation, word((Addr)entry));
  }
  if (FOLLOWS_MEMORY) uses_begin_stretch(translation);
}

static void add_exit(Translation* translation) {
  IRExpr* const next = translation->block->next;
  IRExpr* const bound = get_address_register(translation, offsetof(Registers, leaves_above));
  IRExpr* const stack_pointer = get_word(translation, translation->stack_pointer);
  IRExpr* const leaves = binary(translation, WORD_BELOW, bound, stack_pointer);
  if (trace_asks_usable_size()) {
    IRExpr* const place = call_for_result_if(translation, leaves, "ask_and_leave_operation",
                                             ask_and_leave_operation, next);
    translation->block->next = assign(translation, Ity_I64, IRExpr_ITE(leaves, place, next));
  } else {
    call_if(translation, leaves, "leave_operation", leave_operation, next);
  }
}

// ---- accesses to memory ----

// For each temporary of a block, the one that it is a constant distance from.
typedef struct {
  PtrdiffT stack_pointer;
  IRTemp* base;
  UChar* of_stack;
} Origins;

static Origins find_origins(const IRSB* in, PtrdiffT stack_pointer) {
  const UInt temporaries = (UInt)in->tyenv->types_used;
  const Origins origins = {stack_pointer, VG_(malloc)("tare.origins", temporaries * sizeof(IRTemp)),
                           VG_(calloc)("tare.origins", temporaries, 1)};
  for (IRTemp each = 0; each < temporaries; ++each) origins.base[each] = each;
  return origins;
}

static void follow_origin(Origins* origins, const IRStmt* statement) {
  const IRTemp result = statement->Ist.WrTmp.tmp;
  const IRExpr* data = statement->Ist.WrTmp.data;
  if (data->tag == Iex_Binop && data->Iex.Binop.arg2->tag == Iex_Const &&
      (data->Iex.Binop.op == Iop_Add64 || data->Iex.Binop.op == Iop_Sub64))
    data = data->Iex.Binop.arg1;
  if (data->tag == Iex_RdTmp) {
    origins->base[result] = origins->base[data->Iex.RdTmp.tmp];
    origins->of_stack[result] = origins->of_stack[data->Iex.RdTmp.tmp];
  } else {
    origins->of_stack[result] =
        data->tag == Iex_Get && data->Iex.Get.offset == origins->stack_pointer;
  }
}

static Bool is_on_stack_for_sure(const Origins* origins, const IRExpr* address) {
  return address->tag == Iex_RdTmp && origins->of_stack[address->Iex.RdTmp.tmp];
}

static void add_access(Translation* translation, const Origins* origins, IRExpr* address,
                       IRExpr* guard) {
  if (address->tag == Iex_Const || is_on_stack_for_sure(origins, address)) return;
  if (trace_options.last_use)
    uses_add_access(translation, address, origins->base[address->Iex.RdTmp.tmp], guard);
}

// What has to be added behind a statement because of what it stores.
typedef struct {
  PartialStore parts[2];
  UInt used;
} Pending;

// Whether the instruction moves or sets a string, a byte at a time.
static Bool repeats_bytes(Addr instruction) {
  const UChar* byte = (const UChar*)instruction;
  Bool repeats = False;
  for (; *byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || (*byte & 0xf0) == 0x40; ++byte)
    repeats = repeats || *byte == 0xf2 || *byte == 0xf3;
  return repeats && (*byte == 0xa4 || *byte == 0xaa);
}

static void add_store(Translation* translation, const Origins* origins, Pending* pending,
                      IRExpr* address, IRExpr* data, IRExpr* guard, Addr instruction) {
  add_access(translation, origins, address, guard);
  if (!trace_options.pointers || is_on_stack_for_sure(origins, address)) return;
  pointers_add_store(translation, address, data, guard);
  pending->parts[pending->used++] =
      pointers_add_before_part(translation, address, data, guard, repeats_bytes(instruction));
}

static void add_exchange(Translation* translation, const Origins* origins, Pending* pending,
                         const IRCAS* details) {
  add_access(translation, origins, details->addr, NULL);
  if (!trace_options.pointers || is_on_stack_for_sure(origins, details->addr)) return;
  if (typeOfIRExpr(translation->block->tyenv, details->dataLo) != Ity_I64) return;
  pending->parts[pending->used++] = pointers_add_before_exchange(translation, details->addr);
  if (details->dataHi == NULL) return;
  IRExpr* const high = binary(translation, Iop_Add64, details->addr, number(sizeof(Addr)));
  pending->parts[pending->used++] = pointers_add_before_exchange(translation, high);
}

static Pending add_accesses_of(Translation* translation, const Origins* origins,
                               const IRStmt* statement, Addr instruction) {
  Pending pending = {.used = 0};
  switch (statement->tag) {
    case Ist_WrTmp:
      if (statement->Ist.WrTmp.data->tag == Iex_Load)
        add_access(translation, origins, statement->Ist.WrTmp.data->Iex.Load.addr, NULL);
      break;
    case Ist_Store:
      add_store(translation, origins, &pending, statement->Ist.Store.addr,
                statement->Ist.Store.data, NULL, instruction);
      break;
    case Ist_LoadG: {
      const IRLoadG* const details = statement->Ist.LoadG.details;
      add_access(translation, origins, details->addr, details->guard);
      break;
    }
    case Ist_StoreG: {
      const IRStoreG* const details = statement->Ist.StoreG.details;
      add_store(translation, origins, &pending, details->addr, details->data, details->guard,
                instruction);
      break;
    }
    case Ist_Dirty: {
      const IRDirty* const details = statement->Ist.Dirty.details;
      if (details->mFx != Ifx_None)
        add_access(translation, origins, details->mAddr, details->guard);
      break;
    }
    case Ist_CAS:
      add_exchange(translation, origins, &pending, statement->Ist.CAS.details);
      break;
    default:
      break;
  }
  return pending;
}

// ---- a block ----

// Where two branches form "a && b" the core may make one stretch of both, in which what computes b
// comes before the only exit, and that is guarded by both. Then the instructions of b, which touch
// no memory, are executed by the program only where a holds.
typedef struct {
  IRExpr* first;      // a; NULL: the guard is of another form
  Bool exits_unless;  // the exit is taken unless both hold
} Guard;

static const IRExpr* definition(const IRSB* in, const IRExpr* temporary) {
  if (temporary->tag != Iex_RdTmp) return temporary;
  for (Int i = in->stmts_used - 1; i >= 0; --i) {
    const IRStmt* const statement = in->stmts[i];
    if (statement->tag == Ist_WrTmp && statement->Ist.WrTmp.tmp == temporary->Iex.RdTmp.tmp)
      return statement->Ist.WrTmp.data;
  }
  return temporary;
}

static Guard read_guard(const IRSB* in, const IRExpr* guard) {
  const IRExpr* data = definition(in, guard);
  const Bool exits_unless = data->tag == Iex_Unop && data->Iex.Unop.op == Iop_Not1;
  if (exits_unless) data = definition(in, data->Iex.Unop.arg);
  if (data->tag != Iex_Binop || data->Iex.Binop.op != Iop_And1) return (Guard){NULL, False};
  return (Guard){data->Iex.Binop.arg2, exits_unless};
}

static Bool is_branch(Addr instruction) {
  const UChar* byte = (const UChar*)instruction;
  while (*byte == 0x2e || *byte == 0x3e || *byte == 0xf2) ++byte;
  const Bool is_short = (*byte & 0xf0) == 0x70 || (*byte & 0xfc) == 0xe0;
  return is_short || (*byte == 0x0f && (byte[1] & 0xf0) == 0x80);
}

// `certain`: the instructions of the stretch before those of b; 0: it is no such pair.
static void add_side_exit(Translation* translation, const IRSB* in, IRStmt* exit, UInt certain) {
  const Guard guard = certain == 0 ? (Guard){NULL, False} : read_guard(in, exit->Ist.Exit.guard);
  if (guard.first == NULL) {
    bring_up_to_date(translation);
    addStmtToIRSB(translation->block, exit);
    return;
  }
  IRExpr* const executed = assign(
      translation, Ity_I64, IRExpr_ITE(guard.first, number(translation->counted), number(certain)));
  IRExpr* const clock = binary(translation, Iop_Add64, clock_before(translation), executed);
  if (guard.exits_unless)
    put_register(translation, offsetof(Registers, clock), clock);
  else
    bring_up_to_date(translation);
  addStmtToIRSB(translation->block, exit);
  if (!guard.exits_unless) {
    translation->before = clock;
    translation->counted = 0;
  }
  translation->stored = NOT_STORED;
}

static void add_end(Translation* translation, const IRSB* in, Bool moves_stack, Addr last,
                    UInt last_bytes) {
  // A longjmp and the landing of an exception set the stack pointer and jump; the jump of a
  // procedure linkage table, by far the commonest indirect one, leaves it alone.
  const Bool jumps = in->jumpkind == Ijk_Boring && in->next->tag != Iex_Const && moves_stack;
  if (sites_are_on()) {
    // By its last byte: all observers name a call by the byte before its return address.
    if (in->jumpkind == Ijk_Call) sites_add_call(translation, last + last_bytes - 1);
    if (in->jumpkind == Ijk_Ret) sites_add_return(translation);
    if (jumps) sites_add_jump(translation);
  }
  if (jumps || in->jumpkind == Ijk_Ret) events_add_return(translation);
  if (jumps || (in->jumpkind == Ijk_Ret && may_end_operation(last))) add_exit(translation);
}

IRSB* translate(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                IRType host_word) {
  (void)closure, (void)extents, (void)host, (void)guest_word, (void)host_word;
  Translation translation = {
      .block = deepCopyIRSBExceptStmts(in),
      .registers = REGISTERS_AREA * layout->total_sizeB + REGISTERS_OFFSET,
      .stack_pointer = layout->offset_SP,
  };
  const Bool follows_accesses =
      FOLLOWS_MEMORY && (trace_options.last_use || trace_options.pointers);
  const Bool feeds = feed_is_on();
  Origins origins = find_origins(in, layout->offset_SP);
  UInt certain = 0;
  Bool moves_stack = False, branched = False;
  Addr last = 0;
  UInt last_bytes = 0;
  for (Int i = 0; i < in->stmts_used; ++i) {
    IRStmt* const statement = in->stmts[i];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    Pending pending = {.used = 0};
    if (follows_accesses) {
      if (statement->tag == Ist_WrTmp) follow_origin(&origins, statement);
      if (last != 0) pending = add_accesses_of(&translation, &origins, statement, last);
    }
    if (statement->tag == Ist_Exit) {
      if (feeds && last != 0) feed_statement(&translation, statement);
      add_side_exit(&translation, in, statement, certain);
      branched = False;
      certain = 0;
      continue;
    }
    if (feeds && last != 0 && statement->tag != Ist_IMark) feed_statement(&translation, statement);
    addStmtToIRSB(translation.block, statement);
    for (UInt part = 0; follows_accesses && part < pending.used; ++part)
      pointers_add_after_part(&translation, &pending.parts[part]);
    if (statement->tag == Ist_Put && statement->Ist.Put.offset == layout->offset_SP)
      moves_stack = True;
    if (statement->tag != Ist_IMark) continue;
    if (feeds && last == 0) feed_begin_block(&translation);
    last = statement->Ist.IMark.addr;
    last_bytes = statement->Ist.IMark.len;
    const Entry* const entry = entry_at(last);
    if (entry != NULL) add_entry(&translation, entry);
    if (branched) certain = translation.counted;
    branched = is_branch(last);
    events_add(&translation, last);
    if (feeds) feed_statement(&translation, statement);
    if (executions_are_on())
      executions_add_instruction(&translation, last, statement->Ist.IMark.len);
    ++translation.counted;
  }
  bring_up_to_date(&translation);
  if (feeds && last != 0) feed_end_block(&translation);
  add_end(&translation, in, moves_stack, last, last_bytes);
  VG_(free)(origins.base);
  VG_(free)(origins.of_stack);
  return translation.block;
}
