// SPDX-License-Identifier: GPL-2.0-or-later
// The regions of the program: which there are, and which objects are in them.

#ifndef TARE_INSTRUMENT_OBJECTS_REGIONS_H
#define TARE_INSTRUMENT_OBJECTS_REGIONS_H

#include "objects.h"

void regions_initialise(void);

// A region is named by a number from 1, which is unique in the program and its forks; 0 is none.
UInt regions_create(UWord parent, UInt site);
void regions_allocate(UWord name, const Birth* described);
void regions_clear(UWord name, ULong clock);
void regions_destroy(UWord name, ULong clock);

// Records the regions that are still there.
void regions_finish(void);

// In the child of a fork: the regions are there, but not in its recording.
void regions_start_child(void);

#endif
