// SPDX-License-Identifier: GPL-2.0-or-later
// Code that notes when an object is used: one look at the object map and one store for an access.
//
// The time is the clock at the start of the block. Accesses relative to the stack pointer, and
// those at constant addresses, cannot be of an object, and cost nothing. An access that spans
// several objects, as of a vector instruction, counts for the one where it begins. Accesses at
// constant distances from one value are to one object, as the languages demand: the first of a
// block is noted.

#ifndef TARE_INSTRUMENT_OBJECTS_USES_H
#define TARE_INSTRUMENT_OBJECTS_USES_H

#include "guest/translation.h"

// `address` is a constant distance from `base`. `guard`: NULL, or what must hold for the access to
// happen.
void uses_add_access(Translation* translation, IRExpr* address, IRTemp base, IRExpr* guard);

// After code that may have changed the map: what was read of it is stale.
void uses_forget_map(Translation* translation);

// The slot, as 64 bits, of the object that holds `address`.
IRExpr* uses_add_look_up(Translation* translation, IRExpr* address);

#endif
