// SPDX-License-Identifier: GPL-2.0-or-later
// The stream of accesses that the simulator reads: words of 64 bits. A pointer to a basic block,
// then the addresses of its data accesses; the next pointer; and so on. Accesses that follow each
// other at constant distances, as the registers that a function saves, have one address together.

#ifndef TARE_MEMSYS_BASIC_BLOCK_H
#define TARE_MEMSYS_BASIC_BLOCK_H

#include "chunks.h"

enum {
  WRITES = 1,
  CONDITIONAL = 2,  // the address is 0 where the access was not made
};

typedef struct {
  UShort size;  // in bytes
  UChar at;     // instructions of the block before the one that makes the access
  UChar flags;
  UChar place;   // its address is in which of the block's places
  UChar offset;  // and so many bytes further
} Access;

// What one address in the stream is for: all accesses up to the first of the next place.
typedef struct {
  UShort last;   // the distance from the address to the last byte
  UShort first;  // access
} Place;

typedef struct {
  ULong chunk;    // address, a multiple of the chunk size, but for the bit CONTINUES
  UInt number;    // of the chunk, never 0: chunks of translated code are numbered
  UShort at;      // as in Access
  UShort before;  // data accesses of the block that come before
} Fetch;

// A chunk that belongs to the same instruction as the chunk before it.
#define CONTINUES ((ULong)1)

// Basic blocks of equal content are one and live for ever, so code that is translated again takes
// no further memory.
typedef struct _BasicBlock {
  struct _BasicBlock* next;
  ULong totals;          // instructions, reads and writes, see below
  const Access* access;  // behind the instructions
  const Place* place;    // behind the accesses; one more than there are
  Bool has_conditional;
  UShort fetches;
  UShort accesses;
  UShort places;
  UInt number;
  // Behind the fetches, where the rules ask for it: see instruction_place.
  const ULong* instruction;
  Fetch fetch[];
} BasicBlock;

// Where an instruction is and how long, in one word.
static inline ULong instruction_place(Addr address, UInt bytes) {
  return (ULong)address << 8 | bytes;
}
static inline Addr place_address(ULong place) { return (Addr)(place >> 8); }
static inline UInt place_bytes(ULong place) { return place & 0xff; }

static inline Addr access_address(const Access* access, const ULong* addresses) {
  return addresses[access->place] + access->offset;
}

// Three sums in one word, so that a block costs one addition. A stream has at most STREAM_WORDS
// words, and a block at most MOST_INSTRUCTIONS, so no sum runs over.
enum { STREAM_WORDS = 8192, MOST_INSTRUCTIONS = 250, MOST_ACCESSES = 250, MOST_FETCHES = 600 };

static inline ULong pack_totals(ULong instructions, ULong reads, ULong writes) {
  return instructions << 40 | reads << 20 | writes;
}
static inline ULong packed_instructions(ULong totals) { return totals >> 40; }
static inline ULong packed_reads(ULong totals) { return totals >> 20 & 0xfffff; }
static inline ULong packed_writes(ULong totals) { return totals & 0xfffff; }

// A block while its code is read.
typedef struct {
  UInt instructions;
  UInt fetches;
  UInt accesses;
  UInt places;
  UInt reads;
  UInt writes;
  Bool has_conditional;
  Fetch fetch[MOST_FETCHES];
  Access access[MOST_ACCESSES];
  Int offset[MOST_ACCESSES];  // of each access from the first of its place
  Int lowest;                 // of the offsets of the latest place
  Int highest;                // where its last byte is
  Place place[MOST_ACCESSES + 1];
  UInt known;  // of the instructions, those in:
  ULong instruction[MOST_INSTRUCTIONS];
} Draft;

void draft_clear(Draft* draft);

// False when the next instruction may not fit, and the block must be closed first.
Bool draft_has_room(const Draft* draft);
void draft_instruction(Draft* draft, Addr address, UInt size, const FetchRules* rules);

// An access with an address of its own.
void draft_access(Draft* draft, UInt size, UInt flags);

// The same at a constant distance from the first access of the latest place. False where that is
// too far, and nothing is done.
Bool draft_access_beside(Draft* draft, PtrdiffT distance, UInt size, UInt flags);

// The one block of that content. One that is new must be linked before it is run.
const BasicBlock* basic_block_of(Draft* draft, Bool* is_new);
void basic_block_link(const BasicBlock* block);

// All numbers of blocks that are linked, and of their chunks, are below.
UInt basic_block_numbers(void);
UInt linked_chunk_numbers(void);

// The blocks that fetch a chunk.
typedef struct _Link {
  const struct _Link* next;
  const BasicBlock* block;
} Link;

const Link* links_of_chunk(UInt number);

#endif
