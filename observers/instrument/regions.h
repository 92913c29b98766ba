// SPDX-License-Identifier: GPL-2.0-or-later
// The regions of the program, as region libraries tell of them by way of client/regions.cpp: which
// there are, and which objects are in them.

#ifndef TARE_INSTRUMENT_REGIONS_H
#define TARE_INSTRUMENT_REGIONS_H

#include "core.h"

// A recording sees regions: what the program asks by client requests is answered.
void regions_initialise(void);

// Whether the program has told of any.
extern Bool regions_were_told;

// Memory that a region library has from the manager for itself, which is no object.
void regions_add_own(Addr address, SizeT size);

// Whether `address` begins such memory, which it does not from now on.
Bool regions_take_own_there(Addr address);
static inline Bool regions_take_own(Addr address) {
  return regions_were_told && regions_take_own_there(address);
}

// Calls `visit` for each piece of such memory.
void regions_visit_own(void (*visit)(Addr start, Addr end));

// Writes the regions that are still there.
void regions_finish(void);

// In the child of a fork: the regions are there, but not in its recording.
void regions_start_child(void);

#endif
