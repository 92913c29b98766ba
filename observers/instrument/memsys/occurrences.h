// SPDX-License-Identifier: GPL-2.0-or-later
// How often what is counted in a model happened at each instruction: a table of those at which
// something did.

#ifndef TARE_MEMSYS_OCCURRENCES_H
#define TARE_MEMSYS_OCCURRENCES_H

#include "basic_block.h"

typedef struct {
  const BasicBlock* block;  // NULL: empty
  UShort model;
  UChar at;  // which of the block's instructions
  UChar event;
  ULong count;
} Occurrence;

typedef struct {
  Occurrence* entries;
  UInt capacity;
  UInt used;
} Occurrences;

void occurrences_add(Occurrences* table, const Occurrence* more);
void occurrences_clear(Occurrences* table);

#endif
