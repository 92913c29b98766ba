// SPDX-License-Identifier: GPL-2.0-or-later
#include "pointers.h"

#include "guest/registers.h"
#include "guest/stack.h"
#include "objects.h"
#include "uses.h"

// The number of the object that holds `address`; 0: none, or one of the parent of a fork.
static ULong object_holding(Addr address) {
  if (!has_map_entry(address)) return 0;
  const UInt slot = *map_entry(address);
  return slot == 0 || object_is_inherited(object_in(slot)) ? 0 : object_in(slot)->id;
}

// The word at `address` holds `after` now, or is about to, and held `before`.
static void note_word(GuestState* state, Addr address, Addr before, Addr after, ULong clock) {
  const ULong target = object_holding(after);
  if (target == 0 && object_holding(before) == 0) return;
  const ULong source = object_holding(address);
  if (source == 0 &&
      is_on_stack((ThreadId)registers_of(state)->thread_id, state->GUEST_STACK_POINTER, address))
    return;
  const Addr offset = source == 0 ? address : address - object_in(*map_entry(address))->address;
  recording_add_pointer(clock, source, offset, target);
}

static void note_store(GuestState* state, Addr address, Addr value, ULong clock) {
  note_word(state, address, *(const Addr*)address, value, clock);
}

// A part of the word at `address` has been stored.
static void note_part(GuestState* state, Addr address, Addr before, ULong clock) {
  const Addr after = *(const Addr*)address;
  if (object_holding(after) != object_holding(before))
    note_word(state, address, before, after, clock);
}

// Any number can be looked up: what has no place in the map gives a slot that the callee ignores.
static IRExpr* add_look_up(Translation* translation, IRExpr* value) {
  return uses_add_look_up(
      translation, binary(translation, Iop_And64, value, number(((Addr)1 << ADDRESS_BITS) - 1)));
}

static IRExpr* maps(Translation* translation, IRExpr* slots) {
  return binary(translation, Iop_CmpLT64U, number(0), slots);
}

static IRExpr* all_of(Translation* translation, IRExpr* one, IRExpr* other) {
  if (other == NULL) return one;
  return assign(translation, Ity_I1, IRExpr_Binop(Iop_And1, one, other));
}

static void call_note(Translation* translation, IRExpr* guard, const HChar* name, void* function,
                      IRExpr* address, IRExpr* value) {
  IRDirty* const call =
      unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(function),
                        mkIRExprVec_4(IRExpr_GSPTR(), address, value, clock_before(translation)));
  call->guard = guard;
  call->nFxState = 2;
  VG_(memset)(call->fxState, 0, sizeof call->fxState);
  call->fxState[0].fx = Ifx_Read;
  call->fxState[0].offset = (UShort)translation->registers;
  call->fxState[0].size = sizeof(Registers);
  call->fxState[1].fx = Ifx_Read;
  call->fxState[1].offset = (UShort)translation->stack_pointer;
  call->fxState[1].size = sizeof(Addr);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
}

static void add_word(Translation* translation, IRExpr* address, IRExpr* value, IRExpr* guard) {
  IRExpr* const before = load(translation, Ity_I64, address);
  IRExpr* const slots = binary(translation, Iop_Or64, add_look_up(translation, value),
                               add_look_up(translation, before));
  call_note(translation, all_of(translation, maps(translation, slots), guard), "note_store",
            note_store, address, value);
}

void pointers_add_store(Translation* translation, IRExpr* address, IRExpr* data, IRExpr* guard) {
  const IRType type = typeOfIRExpr(translation->block->tyenv, data);
  const IROp halves[] = {Iop_V128to64, Iop_V128HIto64};
  const IROp quarters[] = {Iop_V256to64_0, Iop_V256to64_1, Iop_V256to64_2, Iop_V256to64_3};
  const IROp* const parts = type == Ity_V128 ? halves : quarters;
  const UInt words = type == Ity_I64 ? 1 : type == Ity_V128 ? 2 : type == Ity_V256 ? 4 : 0;
  for (UInt word = 0; word < words; ++word) {
    IRExpr* const value =
        words == 1 ? data : assign(translation, Ity_I64, IRExpr_Unop(parts[word], data));
    IRExpr* const place =
        word == 0 ? address : binary(translation, Iop_Add64, address, number(word * sizeof(Addr)));
    add_word(translation, place, value, guard);
  }
}

static IRExpr* word_of(Translation* translation, IRExpr* address) {
  return binary(translation, Iop_And64, address, number(~(Addr)7));
}

PartialStore pointers_add_before_part(Translation* translation, IRExpr* address, const IRExpr* data,
                                      IRExpr* guard, Bool repeats) {
  const SizeT bytes = (SizeT)sizeofIRType(typeOfIRExpr(translation->block->tyenv, data));
  if (bytes >= sizeof(Addr)) return (PartialStore){NULL, NULL, NULL};
  IRExpr* const word = word_of(translation, address);
  IRExpr* const before = load(translation, Ity_I64, word);
  IRExpr* const held = maps(translation, add_look_up(translation, before));
  IRExpr* const is_first = binary(translation, Iop_CmpEQ64, word, address);
  if (!repeats) return (PartialStore){word, before, all_of(translation, held, guard)};
  // The words of a string that is moved or set byte by byte: at its first byte what a word held is
  // gone, at its last byte it holds what it will.
  call_note(translation, all_of(translation, all_of(translation, held, is_first), guard),
            "note_store", note_store, word, number(0));
  IRExpr* const behind = binary(translation, Iop_Add64, address, number(bytes));
  IRExpr* const is_last = binary(translation, Iop_CmpEQ64, behind,
                                 binary(translation, Iop_Add64, word, number(sizeof(Addr))));
  return (PartialStore){word, number(0), all_of(translation, is_last, guard)};
}

PartialStore pointers_add_before_exchange(Translation* translation, IRExpr* address) {
  return (PartialStore){address, load(translation, Ity_I64, address), IRExpr_Const(IRConst_U1(1))};
}

void pointers_add_after_part(Translation* translation, const PartialStore* part) {
  if (part->word != NULL)
    call_note(translation, part->guard, "note_part", note_part, part->word, part->before);
}
