// SPDX-License-Identifier: GPL-2.0-or-later
#include "uses.h"

#include "guest/registers.h"
#include "map.h"
#include "teardown.h"

enum { USE_SHIFT = 6 };
_Static_assert(sizeof(Use) == 1 << USE_SHIFT, "a slot is turned into an address by a shift");

static NotedAccess* noted_at(Translation* translation, IRTemp base) {
  const UInt most = sizeof translation->noted / sizeof *translation->noted;
  const UInt used = translation->noted_used < most ? translation->noted_used : most;
  for (UInt i = 0; i < used; ++i)
    if (translation->noted[i].base == base) return &translation->noted[i];
  return NULL;
}

static void note(Translation* translation, NotedAccess access) {
  const UInt most = sizeof translation->noted / sizeof *translation->noted;
  translation->noted[translation->noted_used++ % most] = access;
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

static IRExpr* field(Translation* translation, IRExpr* use, SizeT offset) {
  return binary(translation, Iop_Add64, use, number(offset));
}

static IRExpr* add_look_up_of_use(Translation* translation, IRExpr* address) {
  IRExpr* const slot = uses_add_look_up(translation, address);
  IRExpr* const offset = assign(translation, Ity_I64,
                                IRExpr_Binop(Iop_Shl64, slot, IRExpr_Const(IRConst_U8(USE_SHIFT))));
  return field(translation, offset, OBJECT_USES);
}

static void store_if(Translation* translation, IRExpr* guard, IRExpr* address, IRExpr* value) {
  if (STORES_IF) {
    addStmtToIRSB(translation->block, IRStmt_StoreG(Iend_LE, address, value, guard));
    return;
  }
  IRExpr* const before = load(translation, Ity_I64, address);
  store(translation, address, assign(translation, Ity_I64, IRExpr_ITE(guard, value, before)));
}

// Gives the end of the furthest access before this one.
static IRExpr* add_end(Translation* translation, IRExpr* use, IRExpr* address, SizeT size) {
  IRExpr* const end = binary(translation, Iop_Add64, address, number(size));
  IRExpr* const place = field(translation, use, offsetof(Use, end));
  IRExpr* const before = load(translation, Ity_I64, place);
  store_if(translation, binary(translation, Iop_CmpLT64U, before, end), place, end);
  return before;
}

static void add_time_and_end(Translation* translation, IRExpr* use, IRExpr* address, SizeT size) {
  IRExpr* const now = clock_before(translation);
  IRExpr* const last_at = field(translation, use, offsetof(Use, last));
  IRExpr* const last = load(translation, Ity_I64, last_at);
  IRExpr* const begins = binary(translation, Iop_CmpLT64U, last, stretch_bound(translation));
  store_if(translation, begins, field(translation, use, offsetof(Use, before)), last);
  store_if(translation, begins, field(translation, use, offsetof(Use, stretch)), now);
  store(translation, last_at, now);
  IRExpr* const before = add_end(translation, use, address, size);
  store_if(translation, binary(translation, Iop_CmpEQ64, before, number(0)), use, now);
}

static void add_guarded_access(Translation* translation, const Access* access) {
  IRExpr* const address =
      assign(translation, Ity_I64, IRExpr_ITE(access->guard, access->address, number(0)));
  add_time_and_end(translation, add_look_up_of_use(translation, address), address, access->size);
}

void uses_add_access(Translation* translation, const Access* access) {
  if (access->guard != NULL) return add_guarded_access(translation, access);
  const Long end = access->distance + (Long)access->size;
  NotedAccess* const noted = noted_at(translation, access->base);
  if (noted != NULL && noted->end >= end) return;
  if (noted != NULL) {
    noted->end = end;
    add_end(translation, noted->use, access->address, access->size);
    return;
  }
  IRExpr* const use = add_look_up_of_use(translation, access->address);
  add_time_and_end(translation, use, access->address, access->size);
  note(translation, (NotedAccess){access->base, use, end});
}
