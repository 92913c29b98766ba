// SPDX-License-Identifier: GPL-2.0-or-later
#include "pointers.h"

#include "objects.h"
#include "threads.h"
#include "trace.h"
#include "uses.h"

static ULong object_holding(Addr address) {
  if (!has_map_entry(address)) return 0;
  const UInt slot = *map_entry(address);
  return slot == 0 ? 0 : object_in(slot)->id;
}

static void note_store(VexGuestAMD64State* state, Addr address, Addr value, ULong clock) {
  const ULong target = object_holding(value);
  if (target == 0 && object_holding(*(const Addr*)address) == 0) return;
  const ULong source = object_holding(address);
  if (source == 0 && is_on_stack(registers_of(state)->thread, state->guest_RSP, address)) return;
  const Addr offset = source == 0 ? address : address - object_in(*map_entry(address))->address;
  trace_pointer(clock, source, offset, target);
}

// Any number can be looked up: what has no place in the map gives a slot that the callee ignores.
static IRExpr* add_look_up(Translation* translation, IRExpr* value) {
  return uses_add_look_up(
      translation, binary(translation, Iop_And64, value, number(((Addr)1 << ADDRESS_BITS) - 1)));
}

static void add_word(Translation* translation, IRExpr* address, IRExpr* value, IRExpr* guard) {
  IRExpr* const before = load(translation, Ity_I64, address);
  IRExpr* const slots = binary(translation, Iop_Or64, add_look_up(translation, value),
                               add_look_up(translation, before));
  IRExpr* concerns = binary(translation, Iop_CmpLT64U, number(0), slots);
  if (guard != NULL)
    concerns = assign(translation, Ity_I1, IRExpr_Binop(Iop_And1, concerns, guard));
  IRDirty* const call =
      unsafeIRDirty_0_N(0, "note_store", VG_(fnptr_to_fnentry)(note_store),
                        mkIRExprVec_4(IRExpr_GSPTR(), address, value, clock_before(translation)));
  call->guard = concerns;
  call->nFxState = 2;
  VG_(memset)(call->fxState, 0, sizeof call->fxState);
  call->fxState[0].fx = Ifx_Read;
  call->fxState[0].offset = (UShort)translation->registers;
  call->fxState[0].size = sizeof(Registers);
  call->fxState[1].fx = Ifx_Read;
  call->fxState[1].offset = (UShort)translation->stack_pointer;
  call->fxState[1].size = sizeof(ULong);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
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
