// SPDX-License-Identifier: GPL-2.0-or-later
// The stream of accesses that the simulator reads: words of 64 bits. A pointer to a Stretch, then
// the addresses of its data accesses; the next pointer; and so on.

#ifndef TARE_MEMSYS_STRETCH_H
#define TARE_MEMSYS_STRETCH_H

#include "core.h"

enum {
  WRITES = 1,
  CONDITIONAL = 2,  // the address is 0 where the access was not made
};

typedef struct {
  UShort size;  // in bytes
  UChar at;     // instructions of the stretch before the one that makes the access
  UChar flags;
} Access;

typedef struct {
  ULong chunk;  // address, a multiple of the chunk size, but for the bit CONTINUES
  UInt at;      // as in Access
  UInt before;  // data accesses of the stretch that come before
} Fetch;

// A chunk that belongs to the same instruction as the chunk before it.
#define CONTINUES ((ULong)1)

// Code with one way in and one way out. Stretches of equal content are one and live for ever, so
// code that is translated again takes no further memory.
typedef struct _Stretch {
  struct _Stretch* next;
  ULong totals;          // instructions, reads and writes, see below
  const Access* access;  // behind the fetches
  Bool has_conditional;
  UShort fetches;
  UShort accesses;
  Fetch fetch[];
} Stretch;

// Three sums in one word, so that a stretch costs one addition. A stream has at most STREAM_WORDS
// words, and a stretch at most MOST_INSTRUCTIONS, so no sum runs over.
enum { STREAM_WORDS = 8192, MOST_INSTRUCTIONS = 250, MOST_ACCESSES = 250, MOST_FETCHES = 600 };

static inline ULong pack_totals(ULong instructions, ULong reads, ULong writes) {
  return instructions << 40 | reads << 20 | writes;
}
static inline ULong packed_instructions(ULong totals) { return totals >> 40; }
static inline ULong packed_reads(ULong totals) { return totals >> 20 & 0xfffff; }
static inline ULong packed_writes(ULong totals) { return totals & 0xfffff; }

// Which fetches the models need to see.
typedef struct {
  UInt chunk_bytes;         // fetches within an aligned chunk are one
  Bool again_after_access;  // unless data was used between them
} FetchRules;

// A stretch while its code is read.
typedef struct {
  UInt instructions;
  UInt fetches;
  UInt accesses;
  UInt reads;
  UInt writes;
  Bool has_conditional;
  Fetch fetch[MOST_FETCHES];
  Access access[MOST_ACCESSES];
} Draft;

void draft_clear(Draft* draft);

// False when the next instruction may not fit, and the stretch must be closed first.
Bool draft_has_room(const Draft* draft);
void draft_instruction(Draft* draft, Addr address, UInt size, const FetchRules* rules);
void draft_access(Draft* draft, UInt size, UInt flags);

// The one stretch of that content.
const Stretch* stretch_of(const Draft* draft);

#endif
