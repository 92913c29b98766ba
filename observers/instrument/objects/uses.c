// SPDX-License-Identifier: GPL-2.0-or-later
#include "uses.h"

#include "guest/registers.h"
#include "map.h"
#include "teardown.h"

enum { USE_SHIFT = 5 };
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
  translation->stretch_bound = NULL;
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

// As teardown_stretch_bound(); of the first instructions of a process it does not matter.
static IRExpr* stretch_bound(Translation* translation) {
  if (translation->stretch_bound != NULL) return translation->stretch_bound;
  IRExpr* const now = clock_before(translation);
  IRExpr* const until = get_register(translation, offsetof(Registers, frees_until));
  IRExpr* const since = get_register(translation, offsetof(Registers, frees_since));
  IRExpr* const in_burst = binary(translation, Iop_CmpLT64U, now, until);
  IRExpr* const recent = binary(translation, Iop_Sub64, now, number(TEARDOWN_BEFORE_FIRST));
  translation->stretch_bound = assign(translation, Ity_I64, IRExpr_ITE(in_burst, since, recent));
  return translation->stretch_bound;
}

static IRExpr* in_use(Translation* translation, IRExpr* use, SizeT field) {
  return binary(translation, Iop_Add64, use, number(field));
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
  IRExpr* const last_at = in_use(translation, use, offsetof(Use, last));
  IRExpr* const last = load(translation, Ity_I64, last_at);
  IRExpr* const begins = binary(translation, Iop_CmpLT64U, last, stretch_bound(translation));
  IRExpr* const before_at = in_use(translation, use, offsetof(Use, before));
  addStmtToIRSB(translation->block, IRStmt_StoreG(Iend_LE, before_at, last, begins));
  IRExpr* const stretch_at = in_use(translation, use, offsetof(Use, stretch));
  addStmtToIRSB(translation->block, IRStmt_StoreG(Iend_LE, stretch_at, now, begins));
  store(translation, last_at, now);
  IRExpr* const is_first =
      binary(translation, Iop_CmpEQ64, load(translation, Ity_I64, use), number(0));
  addStmtToIRSB(translation->block, IRStmt_StoreG(Iend_LE, use, now, is_first));
}
