// SPDX-License-Identifier: GPL-2.0-or-later
#include "accesses.h"

#include "objects/recording.h"
#include "objects/uses.h"

Bool accesses_are_followed(void) {
  return recording_options.last_use || recording_options.pointers;
}

Origins origins_begin(const IRSB* in, PtrdiffT stack_pointer) {
  const UInt temporaries = (UInt)in->tyenv->types_used;
  const Origins origins = {stack_pointer, VG_(malloc)("tare.origins", temporaries * sizeof(IRTemp)),
                           VG_(calloc)("tare.origins", temporaries, 1)};
  for (IRTemp each = 0; each < temporaries; ++each) origins.base[each] = each;
  return origins;
}

void origins_end(Origins* origins) {
  VG_(free)(origins->base);
  VG_(free)(origins->of_stack);
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
  if (recording_options.last_use)
    uses_add_access(translation, address, origins->base[address->Iex.RdTmp.tmp], guard);
}

static void add_store(Translation* translation, const Origins* origins, Pending* pending,
                      IRExpr* address, IRExpr* data, IRExpr* guard, Addr instruction) {
  add_access(translation, origins, address, guard);
  if (!recording_options.pointers || is_on_stack_for_sure(origins, address)) return;
  pointers_add_store(translation, address, data, guard);
  pending->parts[pending->used++] =
      pointers_add_before_part(translation, address, data, guard, repeats_bytes(instruction));
}

static void add_exchange(Translation* translation, const Origins* origins, Pending* pending,
                         const IRCAS* details) {
  add_access(translation, origins, details->addr, NULL);
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

void accesses_add_after(Translation* translation, const Pending* pending) {
  for (UInt part = 0; part < pending->used; ++part)
    pointers_add_after_part(translation, &pending->parts[part]);
}
