// SPDX-License-Identifier: GPL-2.0-or-later
// How often what is counted in a model happened at each instruction.

#ifndef TARE_MEMSYS_OCCURRENCES_H
#define TARE_MEMSYS_OCCURRENCES_H

#include "basic_block.h"

typedef struct {
  const BasicBlock* block;
  ULong count[];  // instructions x kinds
} BlockOccurrences;

typedef struct {
  BlockOccurrences** of_block;  // by its number; NULL: nothing happened there
  UInt capacity;
} Occurrences;

// Before the first: how many kinds are told apart.
void occurrences_initialise(UInt kinds);

ULong* occurrences_at(Occurrences* occurrences, const BasicBlock* block, UInt at, UInt kind);

// Calls visit(block, at, kind, count, to) for each that is not 0.
void occurrences_visit(const Occurrences* occurrences,
                       void (*visit)(const BasicBlock* block, UInt at, UInt kind, ULong count,
                                     void* to),
                       void* to);
void occurrences_clear(Occurrences* occurrences);

#endif
