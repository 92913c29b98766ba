// SPDX-License-Identifier: GPL-2.0-or-later
// Finds out when objects become unreachable: a conservative search from the roots, every so many
// bytes allocated.
//
// Roots are the new object, the registers and stacks of all threads, and all memory that can be
// written and is not the manager's. A word that holds an address anywhere in an object reaches it,
// as for a collector behind malloc, so an object may be found late, or never.

#ifndef TARE_INSTRUMENT_OBJECTS_REACHABILITY_H
#define TARE_INSTRUMENT_OBJECTS_REACHABILITY_H

#include "recording.h"

void reachability_initialise(ULong period_bytes);

// After a birth: searches at the end of each period.
void reachability_note_birth(Addr object, ULong clock);
static inline void reachability_after_birth(Addr object, ULong clock) {
  if (recording_options.reachability_bytes != 0) reachability_note_birth(object, clock);
}
// The same after a birth in a region, whose memory need not be the manager's.
void reachability_note_region_birth(Addr object, ULong clock);

// No roots are the manager's mappings, which are made inside its operations, and what must not be
// read.
void reachability_note_mapping(Addr start, SizeT bytes, Bool is_no_root);

#endif
