// SPDX-License-Identifier: GPL-2.0-or-later
// What is counted of each operation of the memory manager.

#ifndef TARE_INSTRUMENT_MANAGER_COUNTS_H
#define TARE_INSTRUMENT_MANAGER_COUNTS_H

#include "core.h"

typedef enum {
  OP_MALLOC,
  OP_CALLOC,
  OP_REALLOC,
  OP_ALIGNED,
  OP_NEW,
  OP_FREE,
  OP_DELETE,
  OP_OTHER,  // malloc_usable_size, malloc_trim: the manager's work, for no object
  OP_PROOF,  // the probe that proves which manager serves: not the program's work, left out
  // Parts of a calloc and of a realloc, counted apart where executions are counted.
  OP_ZEROING,
  OP_COPYING,
  OP_COUNT
} Operation;

extern const HChar* const operation_names[OP_COUNT];

// Instructions of a call fall into bins: one for each number below EXACT_BINS, then 2^FINE_BITS
// for each power of two, so that a bin is never wider than 1/32 of its lower end.
enum { EXACT_BITS = 10, FINE_BITS = 5 };
enum {
  EXACT_BINS = 1 << EXACT_BITS,
  FINE_BINS = 1 << FINE_BITS,
  BINS = EXACT_BINS + (64 - EXACT_BITS) * FINE_BINS
};

typedef struct {
  ULong calls;
  ULong instructions;
  ULong bytes;      // asked for, by calls that succeeded
  ULong no_object;  // calls that got or gave back none: free(NULL), a failed malloc
  ULong left;       // calls that ended by an exception or a longjmp, or not at all
  ULong fewest;
  ULong most;
  ULong bins[BINS];
} OperationCount;

// Of this process since its start or, in the child of a fork, since the fork.
typedef struct {
  ULong objects;
  ULong freed_objects;
  ULong allocated_bytes;
  ULong live_objects;
  ULong live_bytes;
  ULong max_live_objects;
  ULong max_live_bytes;
  ULong asked_max_live_bytes;  // since the program began a new peak
  ULong resized_objects;
  ULong unknown_frees;    // of addresses that no counted call had returned
  ULong inherited_frees;  // of objects from before the fork
  ULong threads;
  ULong signals;
} ProcessCount;

extern OperationCount operation_counts[OP_COUNT + 1];  // the last: of what is no operation
extern ProcessCount process_count;

void counts_reset(void);
void count_call(Operation operation, ULong instructions);
ULong bin_lower_end(UInt bin);

#endif
