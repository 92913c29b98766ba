// SPDX-License-Identifier: GPL-2.0-or-later
// Code that notes when an object is used, and how far: one look at the object map and one store for
// an access, and another where it goes further than all before.
//
// The time is the clock at the start of the block. Accesses relative to the stack pointer, and
// those at constant addresses, cannot be of an object, and cost nothing. An access that spans
// several objects, as of a vector instruction, counts for the one where it begins. Accesses at
// constant distances from one value are to one object, as the languages demand: of those of a
// block the time of the first is noted, and the end of each that goes further.

#ifndef TARE_INSTRUMENT_OBJECTS_USES_H
#define TARE_INSTRUMENT_OBJECTS_USES_H

#include "guest/translation.h"

typedef struct {
  IRExpr* address;
  SizeT size;
  IRTemp base;
  Long distance;  // of `address` from `base`
  IRExpr* guard;  // NULL, or what must hold for the access to happen
} Access;

void uses_add_access(Translation* translation, const Access* access);

// After code that may have changed the map: what was read of it is stale.
void uses_forget_map(Translation* translation);

// The slot, as 64 bits, of the object that holds `address`.
IRExpr* uses_add_look_up(Translation* translation, IRExpr* address);

#endif
