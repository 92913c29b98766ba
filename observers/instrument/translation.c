// SPDX-License-Identifier: GPL-2.0-or-later
#include "translation.h"

#include "executions.h"
#include "threads.h"

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
  if (translation->before == NULL)
    translation->before = get_register(translation, offsetof(Registers, clock));
  return translation->before;
}

void bring_up_to_date(Translation* translation) {
  if (translation->counted == translation->stored) return;
  if (executions_are_on()) executions_add_stretch(translation);
  IRExpr* const after =
      binary(translation, Iop_Add64, clock_before(translation), number(translation->counted));
  put_register(translation, offsetof(Registers, clock), after);
  translation->stored = translation->counted;
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
  const Touched touched[] = {
      {Ifx_Modify, translation->registers, sizeof(Registers)},
      {Ifx_Read, translation->stack_pointer, sizeof(Addr)},
      {Ifx_Read, offsetof(GuestState, GUEST_RESULT), sizeof(Addr)},
#if defined(VGA_amd64)
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RDI), sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RSI), sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RDX), sizeof(ULong)},
#endif
  };
  declare(call, touched, sizeof touched / sizeof *touched);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
}

#if defined(VGA_amd64)

IRExpr* call_for_result_if(Translation* translation, IRExpr* guard, const HChar* name,
                           void* function, IRExpr* argument) {
  const IRTemp result = newIRTemp(translation->block->tyenv, Ity_I64);
  IRDirty* const call =
      unsafeIRDirty_1_N(result, HELPER_REGISTERS, name, VG_(fnptr_to_fnentry)(function),
                        mkIRExprVec_2(IRExpr_GSPTR(), argument));
  call->guard = guard;
  // RAX to R11 lie one after the other, the stack pointer among them.
  const PtrdiffT first = offsetof(VexGuestAMD64State, guest_RAX);
  const PtrdiffT behind = offsetof(VexGuestAMD64State, guest_R12);
  const Touched touched[] = {
      {Ifx_Modify, translation->registers, sizeof(Registers)},
      {Ifx_Modify, first, (SizeT)(behind - first)},
  };
  declare(call, touched, sizeof touched / sizeof *touched);
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
  return IRExpr_RdTmp(result);
}

#endif
