// SPDX-License-Identifier: GPL-2.0-or-later
// What a cache of instructions holds, by the numbers of chunks. Code is known when it is
// translated, so whether a line is there and when it was used last stands under its number, and
// need not be searched.

#ifndef TARE_MEMSYS_LINES_H
#define TARE_MEMSYS_LINES_H

#include "basic_block.h"
#include "cache.h"

typedef struct {
  ULong* times;  // by the number of a line; 0: it is not there
  // By the number of a block: when it ran last, and used all its lines; 0: some of them are not
  // there. So a run need not touch each line, and the latest of all these times counts.
  ULong* ran;
  UInt blocks;   // that there is room for
  UInt* lines;   // sets x ways; 0: empty
  UInt numbers;  // that there is room for
  UInt shift;    // log2 of the chunks of a line
} NumberedLines;

static inline UInt line_of(const NumberedLines* numbered, const Fetch* fetch) {
  return fetch->number >> numbered->shift;
}

// Before the first run.
void lines_number(NumberedLines* numbered, const Cache* cache, UInt chunk_bytes);

// For all code that is known.
void lines_make_room(NumberedLines* numbered);

// Whether all lines of `block` are in different sets, so that their order does not matter.
Bool lines_have_own_sets(const Cache* cache, const BasicBlock* block);

// `line` leaves, in a cache that needs no times.
void lines_forget_runs(NumberedLines* numbered, UInt line);

#endif
