// SPDX-License-Identifier: GPL-2.0-or-later
// The objects that are alive, by address, and what follows from their births and deaths.

#ifndef TARE_INSTRUMENT_OBJECTS_H
#define TARE_INSTRUMENT_OBJECTS_H

#include "core.h"

void objects_initialise(void);

// In the child of a fork: what is alive belongs to the parent's count.
void objects_inherit(void);

void object_born(Addr address, SizeT size);

// False when no object of that address is known.
Bool object_died(Addr address);

// The object at `from` has become one of `size` bytes at `to`: it stays the same object.
void object_resized(Addr from, Addr to, SizeT size);

#endif
