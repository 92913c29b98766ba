// SPDX-License-Identifier: GPL-2.0-or-later
// The misses of caches of all sizes and associativities with one size of line, in one pass.

#ifndef TARE_MEMSYS_CURVE_H
#define TARE_MEMSYS_CURVE_H

#include "basic_block.h"
#include "distances.h"

// Who makes an access: 0 is the program, the others are operations of its memory manager.
enum { OWNERS = 16 };

// Distances fall into bins: one for each number below EXACT_DISTANCES, then 32 for each power of
// two, so that the misses of a cache whose size is a limit of bins are exact.
enum { EXACT_DISTANCES = 64, FINE = 32, DISTANCE_BINS = EXACT_DISTANCES + (32 - 6) * FINE };

// Set-associative caches have 2^0 up to 2^(SET_COUNTS - 1) sets, of 1 up to WAYS lines.
enum { SET_COUNTS = 17, WAYS = 16 };

typedef struct {
  ULong accesses;
  ULong first_uses;
  ULong bins[DISTANCE_BINS];
  ULong latest[SET_COUNTS];       // accesses first found on top of their set at that number of sets
  ULong found[SET_COUNTS][WAYS];  // found below the top, by place in the set
} CurveCounts;

typedef struct {
  Bool of_instructions;
  UInt shift;
  ULong last_line;
  Distances distances;
  ULong* sets[SET_COUNTS];
  CurveCounts counts[OWNERS];
} Curve;

Curve* curve_new(Bool of_instructions, UInt line_bytes);
void curve_run(Curve* curve, const ULong* word, const ULong* end, UInt owner);
void curve_reset_counts(Curve* curve);

// Accesses found at `place` (0: on top) of a set of a cache with 2^`sets` sets.
ULong curve_hits(const CurveCounts* counts, UInt sets, UInt place);

ULong distance_bin_start(UInt bin);

#endif
