// SPDX-License-Identifier: GPL-2.0-or-later
// A memory system: one to three levels of caches, or one level over a write buffer.
// docs/memsys.md says what the parts mean.

#ifndef TARE_MEMSYS_MODEL_H
#define TARE_MEMSYS_MODEL_H

#include "basic_block.h"
#include "lines.h"
#include "occurrences.h"

typedef enum { FETCH, READ, WRITE, KINDS } Kind;

enum { MOST_LEVELS = 3, MOST_ENTRIES = 64, NAME_BYTES = 64, QUICK_HINTS = 8192 };

typedef struct {
  ULong misses[KINDS][MOST_LEVELS];
  ULong translation_misses[KINDS];
  ULong buffer_stall_cycles;
} Counts;

// Counts is all of its type, so that counts can be added up and written as a row of numbers.
enum { COUNTS = sizeof(Counts) / sizeof(ULong), BUFFER_STALLS = COUNTS - 1 };

static inline UInt miss_of(Kind kind, UInt level) { return kind * MOST_LEVELS + level; }
static inline UInt translation_miss_of(Kind kind) { return KINDS * MOST_LEVELS + kind; }

typedef struct {
  UInt entries;  // 0: there is none
  UInt width_shift;
  UInt page_shift;
  UInt same_page_cycles;
  UInt other_page_cycles;
  ULong finish[MOST_ENTRIES];  // when the entry has gone to memory; a ring
  UInt next;
  ULong last_finish;
  ULong last_page;
} WriteBuffer;

typedef struct {
  HChar name[NAME_BYTES];
  UInt levels;
  Cache instruction;       // of the first level; unused when it is unified
  NumberedLines numbered;  // what it holds, where that can be known
  Cache data;              // or both
  Cache below[MOST_LEVELS - 1];
  Cache instruction_pages;
  Cache data_pages;
  Bool unified;
  Bool unified_pages;
  Bool translates_fetches;
  Bool translates_data;
  Slot* quick_data[QUICK_HINTS];  // hints for the first level, within reach of one address
  Bool whole_accesses;  // an access to two lines misses once, and goes whole to the level below
  // Of a model with a write buffer.
  WriteBuffer buffer;
  UInt read_fetch_shift;  // log2 of the bytes that a read miss fetches
  UInt fetch_miss_cycles;
  UInt read_miss_cycles;
  ULong cycle;  // in which the block would have begun without its delays so far
  // Where what happens is charged to the instruction, too.
  Occurrences* occurrences;  // NULL: it is not
  const BasicBlock* block;   // that runs
  UInt number;               // of the model
  UInt at;                   // the block's instruction
} Model;

// `event` is a place in Counts. Unlikely, so that it stays out of the way of what hits.
static inline void count_event(Model* model, Counts* counts, UInt event, ULong number) {
  ((ULong*)counts)[event] += number;
  if (model->occurrences == NULL) return;
  *occurrences_at(model->occurrences, model->block, model->at, model->number * COUNTS + event) +=
      number;
}

static inline Cache* first_level(Model* model, Kind kind) {
  return kind == FETCH && !model->unified ? &model->instruction : &model->data;
}

#endif
