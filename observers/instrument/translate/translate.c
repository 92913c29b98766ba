// SPDX-License-Identifier: GPL-2.0-or-later
#include "translate.h"

#include "accesses.h"
#include "conjunctions.h"
#include "events/events.h"
#include "executions/clock.h"
#include "manager/entries.h"
#include "manager/returns.h"
#include "memsys/feed.h"
#include "objects/recording.h"
#include "objects/uses.h"
#include "sites/shadow.h"
#include "threads/operations.h"
#include "threads/usable_size.h"

Bool tare_begins_block(Addr address) { return entry_at(address) != NULL; }

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
  if (FOLLOWS_MEMORY) uses_forget_map(translation);
}

static IRExpr* leaves_operation(Translation* translation) {
  IRExpr* const bound = get_address_register(translation, offsetof(Registers, leaves_above));
  return binary(translation, WORD_BELOW, bound, get_end_of_calls(translation));
}

static void add_return(Translation* translation, Addr address) {
  call_if(translation, leaves_operation(translation), "leave_operation", leave_operation,
          word(address));
}

// Before the jump itself: it may have to lead elsewhere, or not to where the operation returns.
static void add_exit(Translation* translation) {
  IRExpr* const next = translation->block->next;
  IRExpr* const leaves = leaves_operation(translation);
  if (recording_asks_usable_size()) {
    IRExpr* const place = call_for_place_if(translation, leaves, "ask_and_leave_operation",
                                            ask_and_leave_operation, next);
    translation->block->next = assign(translation, Ity_I64, IRExpr_ITE(leaves, place, next));
  } else {
    call_if(translation, leaves, "leave_operation", leave_operation, next);
  }
}

// Whether the code is what lands an exception: where calls leave the stack pointer alone, that can
// lead to the stack pointer of the call that failed, as a function's last call of another does.
static Bool unwinds(Addr address) {
  const HChar* name;
  return CALL_PLACE != 0 && VG_(get_fnname)(VG_(current_DiEpoch)(), address, &name) &&
         VG_(strncmp)(name, "_Unwind_", 8) == 0;
}

static void add_end(Translation* translation, const IRSB* in, Bool moves_stack, Addr last,
                    UInt last_bytes) {
  // A longjmp and the landing of an exception set the stack pointer and jump; the jump of a
  // procedure linkage table, by far the commonest indirect one, leaves it alone.
  const Bool indirect = in->jumpkind == Ijk_Boring && in->next->tag != Iex_Const && moves_stack;
  const Bool returns = in->jumpkind == Ijk_Ret;
  const Bool lands = (indirect || returns) && unwinds(last);
  const Bool jumps = indirect || lands;
  translation->may_call = indirect && !lands;
  if (sites_are_on()) {
    // By its last byte: all observers name a call by the byte before its return address.
    if (in->jumpkind == Ijk_Call) sites_add_call(translation, last + last_bytes - 1);
    if (returns) sites_add_return(translation);
    if (indirect) sites_add_jump(translation);
  }
  if (jumps || returns) events_add_return(translation);
  const Bool asks = returns && recording_asks_usable_size();
  if (jumps || (asks && may_end_operation(last))) add_exit(translation);
}

IRSB* translate(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                IRType host_word) {
  (void)closure, (void)host, (void)guest_word, (void)host_word;
  Translation translation = {
      .block = deepCopyIRSBExceptStmts(in),
      .registers = REGISTERS_AREA * layout->total_sizeB + REGISTERS_OFFSET,
      .stack_pointer = layout->offset_SP,
  };
  const Bool follows_accesses = FOLLOWS_MEMORY && accesses_are_followed();
  const Bool feeds = feed_is_on();
  Origins origins = {0};
  if (follows_accesses) origins = origins_begin(in, layout->offset_SP);
  if (may_be_returned_to(extents->base[0]) && !recording_asks_usable_size())
    add_return(&translation, extents->base[0]);
  UInt certain = 0;
  Bool moves_stack = False, branched = False;
  Addr last = 0;
  UInt last_bytes = 0;
  for (Int i = 0; i < in->stmts_used; ++i) {
    IRStmt* const statement = in->stmts[i];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    Pending pending = {.used = 0};
    if (follows_accesses) pending = accesses_add_before(&translation, &origins, statement, last);
    if (statement->tag == Ist_Exit) {
      if (feeds && last != 0) feed_statement(&translation, statement);
      add_side_exit(&translation, in, statement, certain);
      branched = False;
      certain = 0;
      continue;
    }
    if (feeds && last != 0 && statement->tag != Ist_IMark) feed_statement(&translation, statement);
    addStmtToIRSB(translation.block, statement);
    if (follows_accesses) accesses_add_after(&translation, &pending);
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
    count_instruction(&translation, last, last_bytes);
  }
  bring_up_to_date(&translation);
  if (feeds && last != 0) feed_end_block(&translation);
  add_end(&translation, in, moves_stack, last, last_bytes);
  if (follows_accesses) origins_end(&origins);
  return translation.block;
}
