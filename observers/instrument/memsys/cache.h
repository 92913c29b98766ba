// SPDX-License-Identifier: GPL-2.0-or-later
// A set-associative cache with least-recently-used replacement. It holds the numbers of lines, and
// no data. A translation lookaside buffer is one too, its lines being pages.
//
// A line stays in its slot while it is in the cache, with the time of its latest use. So a hit is
// one comparison and one store once the slot is known, and a table of hints nearly always knows it:
// simulated caches hit nearly always, and a search through the ways would be guessed wrong often.

#ifndef TARE_MEMSYS_CACHE_H
#define TARE_MEMSYS_CACHE_H

#include "core.h"

#define NO_LINE (~(ULong)0)

typedef struct {
  ULong line;
  ULong time;  // of its latest use; 0: empty
} Slot;

typedef struct {
  Slot* slots;    // sets x ways
  ULong* direct;  // for a model that only asks what is there: the lines of one way; NULL: of more
  Slot** hints;   // for each remainder of a line's number, the slot where such a line was last
  ULong hint_mask;
  ULong clock;
  ULong mask;  // sets - 1 where that is a power of two, else 0
  ULong sets;
  UInt ways;
  UInt shift;           // log2 of the line's bytes
  Bool fetches_writes;  // a write that misses brings the line in
  Bool writes_through;  // a write goes to the level below, hit or not
  Bool includes_above;  // what leaves this cache leaves the ones above it
} Cache;

void cache_initialise(Cache* cache, ULong sets, UInt ways, UInt line_bytes);

// Where `line` is, if it is where such a line was last.
static inline Slot* cache_hint(const Cache* cache, ULong line) {
  return cache->hints[line & cache->hint_mask];
}

// Most uses: True when `line` is where the hint says; it is then the most recently used of its set.
static inline Bool cache_touch_hinted(Cache* cache, ULong line) {
  Slot* const slot = cache_hint(cache, line);
  if (slot->line != line) return False;
  slot->time = ++cache->clock;
  return True;
}

// Makes `line` the most recently used of its set. True when it was there; else `out` is the line
// that had to leave, or NO_LINE.
Bool cache_touch(Cache* cache, ULong line, ULong* out);

// The same, but leaves the set as it is when the line is not there.
Bool cache_touch_present(Cache* cache, ULong line);

void cache_remove(Cache* cache, ULong line);

#endif
