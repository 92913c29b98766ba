// SPDX-License-Identifier: GPL-2.0-or-later
// Memory that a region library has from the manager for itself, which is no object.

#ifndef TARE_INSTRUMENT_OBJECTS_OWN_MEMORY_H
#define TARE_INSTRUMENT_OBJECTS_OWN_MEMORY_H

#include "core.h"

// Whether the program has named any region, or such memory.
extern Bool regions_were_seen;

void own_memory_initialise(void);

void own_memory_add(Addr address, SizeT size);

// Whether `address` begins such memory, which it does not from now on.
Bool own_memory_remove_there(Addr address);
static inline Bool own_memory_remove(Addr address) {
  return regions_were_seen && own_memory_remove_there(address);
}

void own_memory_visit(void (*visit)(Addr start, Addr end));

#endif
