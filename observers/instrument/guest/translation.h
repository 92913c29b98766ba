// SPDX-License-Identifier: GPL-2.0-or-later
// A block of the program while code is added to it, and the small steps in which that is done.

#ifndef TARE_INSTRUMENT_GUEST_TRANSLATION_H
#define TARE_INSTRUMENT_GUEST_TRANSLATION_H

#include "platform/guest.h"

// What has been noted of the accesses at constant distances from one value.
typedef struct {
  IRTemp base;
  IRExpr* use;  // where the use of its object lies
  Long end;     // how far they reach from `base`
} NotedAccess;

typedef struct {
  IRSB* block;
  PtrdiffT registers;  // offset of the thread's Registers in the guest state
  PtrdiffT stack_pointer;
  Bool may_call;          // what ends the block may be the call of a function, the last of another
  IRExpr* before;         // the clock at the block's start; NULL until it is needed
  UInt counted;           // instructions of the block so far
  UInt stored;            // of these, in the clock
  IRExpr* map;            // the object map for the code that follows; NULL until it is needed
  IRExpr* stretch_bound;  // objects/uses.h, likewise
  NotedAccess noted[16];  // since the map was read
  UInt noted_used;
} Translation;

static inline IRExpr* number(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

IRExpr* assign(Translation* translation, IRType type, IRExpr* expression);
IRExpr* binary(Translation* translation, IROp operation, IRExpr* left, IRExpr* right);
IRExpr* load(Translation* translation, IRType type, IRExpr* address);
void store(Translation* translation, IRExpr* address, IRExpr* value);
IRExpr* get(Translation* translation, PtrdiffT offset);
IRExpr* get_word(Translation* translation, PtrdiffT offset);

// At the end of the block: calls whose place is below this have ended.
IRExpr* get_end_of_calls(Translation* translation);

// `field` is an offset in Registers.
IRExpr* get_register(Translation* translation, SizeT field);
IRExpr* get_address_register(Translation* translation, SizeT field);
void put_register(Translation* translation, SizeT field, IRExpr* value);

// The clock at the start of the block.
IRExpr* clock_before(Translation* translation);

// A call of `function` with the guest state and `argument`, where `guard` holds (NULL: always). It
// may read the registers that carry arguments, results and the stack pointer, and change Registers.
void call_if(Translation* translation, IRExpr* guard, const HChar* name, void* function,
             IRExpr* argument);

// A call at the end of a block that sets Registers.leads_to, which is given, and may change the
// registers that a call may change, and the stack pointer. Where `guard` does not hold the result
// means nothing. (The core's arm64 code knows no calls with a guard and a result.)
IRExpr* call_for_place_if(Translation* translation, IRExpr* guard, const HChar* name,
                          void* function, IRExpr* argument);

#endif
