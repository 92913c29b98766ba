// SPDX-License-Identifier: GPL-2.0-or-later
#include "uses.h"

#include "guest/registers.h"
#include "map.h"

enum { USE_SHIFT = 4 };
_Static_assert(sizeof(Use) == 1 << USE_SHIFT, "a slot is turned into an address by a shift");

static Bool is_noted(Translation* translation, IRTemp base) {
  const UInt most = sizeof translation->noted / sizeof *translation->noted;
  const UInt used = translation->noted_used < most ? translation->noted_used : most;
  for (UInt i = 0; i < used; ++i)
    if (translation->noted[i] == base) return True;
  translation->noted[translation->noted_used++ % most] = base;
  return False;
}

void uses_forget_map(Translation* translation) {
  translation->map = NULL;
  translation->noted_used = 0;
}

IRExpr* uses_add_look_up(Translation* translation, IRExpr* address) {
  if (translation->map == NULL)
    translation->map = get_register(translation, offsetof(Registers, map));
  IRExpr* const word =
      assign(translation, Ity_I64, IRExpr_Binop(Iop_Shr64, address, IRExpr_Const(IRConst_U8(3))));
  IRExpr* const offset =
      assign(translation, Ity_I64, IRExpr_Binop(Iop_Shl64, word, IRExpr_Const(IRConst_U8(2))));
  IRExpr* const entry = binary(translation, Iop_Add64, translation->map, offset);
  return assign(translation, Ity_I64, IRExpr_Unop(Iop_32Uto64, load(translation, Ity_I32, entry)));
}

void uses_add_access(Translation* translation, IRExpr* address, IRTemp base, IRExpr* guard) {
  if (guard != NULL)
    address = assign(translation, Ity_I64, IRExpr_ITE(guard, address, number(0)));
  else if (is_noted(translation, base))
    return;
  IRExpr* const slot = uses_add_look_up(translation, address);
  IRExpr* const offset = assign(translation, Ity_I64,
                                IRExpr_Binop(Iop_Shl64, slot, IRExpr_Const(IRConst_U8(USE_SHIFT))));
  IRExpr* const use = binary(translation, Iop_Add64, offset, number(OBJECT_USES));
  IRExpr* const now = clock_before(translation);
  store(translation, binary(translation, Iop_Add64, use, number(offsetof(Use, last))), now);
  IRExpr* const is_first =
      binary(translation, Iop_CmpEQ64, load(translation, Ity_I64, use), number(0));
  addStmtToIRSB(translation->block, IRStmt_StoreG(Iend_LE, use, now, is_first));
}
