// SPDX-License-Identifier: GPL-2.0-or-later
#include "accesses.h"

#include "objects/recording.h"
#include "objects/uses.h"

Bool accesses_are_followed(void) {
  return recording_options.last_use || recording_options.pointers;
}

Origins origins_begin(const IRSB* in, PtrdiffT stack_pointer) {
  const UInt temporaries = (UInt)in->tyenv->types_used;
  const Origins origins = {
      .stack_pointer = stack_pointer,
      .base = VG_(malloc)("tare.origins", temporaries * sizeof(IRTemp)),
      .distance = VG_(calloc)("tare.origins", temporaries, sizeof(Long)),
      .of_stack = VG_(calloc)("tare.origins", temporaries, 1),
  };
  for (IRTemp each = 0; each < temporaries; ++each) origins.base[each] = each;
  return origins;
}

void origins_end(Origins* origins) {
  VG_(free)(origins->base);
  VG_(free)(origins->distance);
  VG_(free)(origins->of_stack);
}

static void follow_origin(Origins* origins, const IRStmt* statement) {
  const IRTemp result = statement->Ist.WrTmp.tmp;
  const IRExpr* data = statement->Ist.WrTmp.data;
  Long added = 0;
  if (data->tag == Iex_Binop && data->Iex.Binop.arg2->tag == Iex_Const &&
      (data->Iex.Binop.op == Iop_Add64 || data->Iex.Binop.op == Iop_Sub64)) {
    const Long constant = (Long)data->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
    added = data->Iex.Binop.op == Iop_Add64 ? constant : -constant;
    data = data->Iex.Binop.arg1;
  }
  if (data->tag == Iex_RdTmp) {
    origins->base[result] = origins->base[data->Iex.RdTmp.tmp];
    origins->distance[result] = origins->distance[data->Iex.RdTmp.tmp] + added;
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
                       SizeT size, IRExpr* guard) {
  if (address->tag == Iex_Const || is_on_stack_for_sure(origins, address)) return;
  if (!recording_options.last_use) return;
  const IRTemp at = address->Iex.RdTmp.tmp;
  const Access access = {address, size, origins->base[at], origins->distance[at], guard};
  uses_add_access(translation, &access);
}

static SizeT size_of(const Translation* translation, const IRExpr* data) {
  return (SizeT)sizeofIRType(typeOfIRExpr(translation->block->tyenv, data));
}

static SizeT size_of_guarded_load(const IRLoadG* details) {
  IRType result, loaded;
  typeOfIRLoadGOp(details->cvt, &result, &loaded);
  return (SizeT)sizeofIRType(loaded);
}

static void add_store(Translation* translation, const Origins* origins, Pending* pending,
                      IRExpr* address, IRExpr* data, IRExpr* guard, Addr instruction) {
  add_access(translation, origins, address, size_of(translation, data), guard);
  if (!recording_options.pointers || is_on_stack_for_sure(origins, address)) return;
  pointers_add_store(translation, address, data, guard);
  pending->parts[pending->used++] =
      pointers_add_before_part(translation, address, data, guard, repeats_bytes(instruction));
}

static void add_exchange(Translation* translation, const Origins* origins, Pending* pending,
                         const IRCAS* details) {
  const SizeT parts = details->dataHi == NULL ? 1 : 2;
  add_access(translation, origins, details->addr, parts * size_of(translation, details->dataLo),
             NULL);
  if (!recording_options.pointers || is_on_stack_for_sure(origins, details->addr)) return;
  if (typeOfIRExpr(translation->block->tyenv, details->dataLo) != Ity_I64) return;
  pending->parts[pending->used++] = pointers_add_before_exchange(translation, details->addr);
  if (details->dataHi == NULL) return;
  IRExpr* const high = binary(translation, Iop_Add64, details->addr, number(sizeof(Addr)));
  pending->parts[pending->used++] = pointers_add_before_exchange(translation, high);
}

Pending accesses_add_before(Translation* translation, Origins* origins, const IRStmt* statement,
                            Addr instruction) {
  Pending pending = {.used = 0};
  if (statement->tag == Ist_WrTmp) follow_origin(origins, statement);
  if (instruction == 0) return pending;
  switch (statement->tag) {
    case Ist_WrTmp:
      if (statement->Ist.WrTmp.data->tag == Iex_Load)
        add_access(translation, origins, statement->Ist.WrTmp.data->Iex.Load.addr,
                   (SizeT)sizeofIRType(statement->Ist.WrTmp.data->Iex.Load.ty), NULL);
      break;
    case Ist_Store:
      add_store(translation, origins, &pending, statement->Ist.Store.addr,
                statement->Ist.Store.data, NULL, instruction);
      break;
    case Ist_LoadG: {
      const IRLoadG* const details = statement->Ist.LoadG.details;
      add_access(translation, origins, details->addr, size_of_guarded_load(details),
                 details->guard);
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
        add_access(translation, origins, details->mAddr, (SizeT)details->mSize, details->guard);
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

void accesses_add_after(Translation* translation, const Pending* pending) {
  for (UInt part = 0; part < pending->used; ++part)
    pointers_add_after_part(translation, &pending->parts[part]);
}
