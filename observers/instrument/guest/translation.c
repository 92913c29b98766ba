// SPDX-License-Identifier: GPL-2.0-or-later
#include "translation.h"

#include "registers.h"

IRExpr* assign(Translation* translation, IRType type, IRExpr* expression) {
  const IRTemp temporary = newIRTemp(translation->block->tyenv, type);
  addStmtToIRSB(translation->block, IRStmt_WrTmp(temporary, expression));
  return IRExpr_RdTmp(temporary);
}

IRExpr* binary(Translation* translation, IROp operation, IRExpr* left, IRExpr* right) {
  IRType result, of_left, of_right, unused;
  typeOfPrimop(operation, &result, &of_left, &of_right, &unused, &unused);
  return assign(translation, result, IRExpr_Binop(operation, left, right));
}

IRExpr* load(Translation* translation, IRType type, IRExpr* address) {
  return assign(translation, type, IRExpr_Load(Iend_LE, type, address));
}

void store(Translation* translation, IRExpr* address, IRExpr* value) {
  addStmtToIRSB(translation->block, IRStmt_Store(Iend_LE, address, value));
}

IRExpr* get(Translation* translation, PtrdiffT offset) {
  return assign(translation, Ity_I64, IRExpr_Get((Int)offset, Ity_I64));
}

IRExpr* get_word(Translation* translation, PtrdiffT offset) {
  return assign(translation, WORD_TYPE, IRExpr_Get((Int)offset, WORD_TYPE));
}

IRExpr* get_end_of_calls(Translation* translation) {
  IRExpr* const stack_pointer = get_word(translation, translation->stack_pointer);
  if (CALL_PLACE == 0 || !translation->may_call) return stack_pointer;
  return binary(translation, WORD_ADD, stack_pointer, word(-(Addr)CALL_PLACE));
}

IRExpr* get_register(Translation* translation, SizeT field) {
  return get(translation, translation->registers + (PtrdiffT)field);
}

IRExpr* get_address_register(Translation* translation, SizeT field) {
  return get_word(translation, translation->registers + (PtrdiffT)field);
}

void put_register(Translation* translation, SizeT field, IRExpr* value) {
  const PtrdiffT offset = translation->registers + (PtrdiffT)field;
  addStmtToIRSB(translation->block, IRStmt_Put((Int)offset, value));
}

IRExpr* clock_before(Translation* translation) {
  if (translation->before == NULL) {
    IRExpr* const now = get_register(translation, offsetof(Registers, clock));
    translation->before = binary(translation, Iop_Sub64, now, number(translation->stored));
  }
  return translation->before;
}

typedef struct {
  IREffect effect;
  PtrdiffT offset;
  SizeT size;
} Touched;

static void declare(IRDirty* call, const Touched* touched, UInt count) {
  tl_assert(count <= VEX_N_FXSTATE);
  call->nFxState = (Int)count;
  VG_(memset)(call->fxState, 0, sizeof call->fxState);
  for (UInt i = 0; i < count; ++i) {
    call->fxState[i].fx = touched[i].effect;
    call->fxState[i].offset = (UShort)touched[i].offset;
    call->fxState[i].size = (UShort)touched[i].size;
  }
}

void call_if(Translation* translation, IRExpr* guard, const HChar* name, void* function,
             IRExpr* argument) {
  IRDirty* const call = unsafeIRDirty_0_N(HELPER_REGISTERS, name, VG_(fnptr_to_fnentry)(function),
                                          mkIRExprVec_2(IRExpr_GSPTR(), argument));
  if (guard != NULL) call->guard = guard;
  enum { ALWAYS = 3 };
  Touched touched[ALWAYS + ARGUMENT_REGISTERS] = {
      {Ifx_Modify, translation->registers, sizeof(Registers)},
      {Ifx_Read, translation->stack_pointer, sizeof(Addr)},
      {Ifx_Read, offsetof(GuestState, GUEST_RESULT), sizeof(Addr)},
  };
  for (Int i = 0; i < ARGUMENT_REGISTERS; ++i)
    touched[ALWAYS + i] = (Touched){Ifx_Read, argument_registers[i], sizeof(Addr)};
  declare(call, touched, sizeof touched / sizeof *touched);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
}

IRExpr* call_for_place_if(Translation* translation, IRExpr* guard, const HChar* name,
                          void* function, IRExpr* argument) {
  IRDirty* const call = unsafeIRDirty_0_N(HELPER_REGISTERS, name, VG_(fnptr_to_fnentry)(function),
                                          mkIRExprVec_2(IRExpr_GSPTR(), argument));
  call->guard = guard;
  const Touched touched[] = {
      {Ifx_Modify, translation->registers, sizeof(Registers)},
      {Ifx_Modify, CHANGED_BY_CALLS, CHANGED_BY_CALLS_END - CHANGED_BY_CALLS},
  };
  declare(call, touched, sizeof touched / sizeof *touched);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
  return get_address_register(translation, offsetof(Registers, leads_to));
}
