// SPDX-License-Identifier: GPL-2.0-or-later
// The objects that are alive, and what follows from births and deaths.

#ifndef TARE_INSTRUMENT_OBJECTS_OBJECTS_H
#define TARE_INSTRUMENT_OBJECTS_OBJECTS_H

#include "map.h"
#include "recording.h"

// In the child of a fork: what is alive belongs to the parent's count.
void objects_inherit(void);

// Born before the last fork, so not of this process's count.
Bool object_is_inherited(const Object* object);

// Slots in use lie below this.
UInt objects_end(void);

void object_born(const Birth* birth);

// False when no object of that address is known.
Bool object_died(Addr address, const Death* death);

// The region of the object in `slot` has gone, or been cleared.
void object_ended_by_region(UInt slot, ULong clock);

// The object in `slot` (0: unknown) has become the one that `birth` describes: for the counts it
// stays the same object, in a trace it ends and another begins.
void object_resized(UInt slot, const Birth* birth);

// Records those that are alive at the end.
void objects_finish(void);

#endif
