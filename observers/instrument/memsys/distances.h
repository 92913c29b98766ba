// SPDX-License-Identifier: GPL-2.0-or-later
// Stack distances, after Mattson: how many other lines were used since a line was last used. A
// fully associative cache of C lines with least-recently-used replacement hits an access if and
// only if its distance is below C, so the distances of one run are the misses of all sizes.
//
// Time is a row of slots, one for each use. A slot is marked while its use is the latest of its
// line; the distance is the number of marks behind the line's slot. Marks are counted by a Fenwick
// tree over blocks of slots. When the slots are used up the marked ones are moved together, so
// memory is bounded by the number of distinct lines, and an access takes O(log lines).

#ifndef TARE_MEMSYS_DISTANCES_H
#define TARE_MEMSYS_DISTANCES_H

#include "core.h"

#define FIRST_USE (~(ULong)0)

typedef struct {
  ULong line;
  UInt slot;
} LineUse;

typedef struct {
  LineUse* uses;  // one for each distinct line
  UInt used;
  UInt uses_capacity;
  UInt* table;  // of lines: index in `uses` plus 1, or 0
  UInt table_capacity;
  ULong* marks;    // a bit for each slot
  UInt* owner_of;  // for each slot, the index in `uses`
  UInt* tree;      // marks in blocks of slots
  UInt slots;
  UInt now;  // the next free slot
} Distances;

void distances_initialise(Distances* distances);

// The distance of this use of `line`, or FIRST_USE.
ULong distances_use(Distances* distances, ULong line);

#endif
