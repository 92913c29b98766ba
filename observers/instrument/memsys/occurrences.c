// SPDX-License-Identifier: GPL-2.0-or-later
#include "occurrences.h"

static UInt kinds;

void occurrences_initialise(UInt different_kinds) { kinds = different_kinds; }

// What goes on with an instruction that began in another block has none of its own.
static UInt places_of(const BasicBlock* block) {
  const UInt instructions = (UInt)packed_instructions(block->totals);
  return instructions == 0 ? 1 : instructions;
}

static BlockOccurrences* new_of_block(Occurrences* occurrences, const BasicBlock* block) {
  if (block->number >= occurrences->capacity) {
    const UInt old = occurrences->capacity;
    occurrences->capacity = 2 * basic_block_numbers();
    occurrences->of_block = VG_(realloc)("tare.occurrences", occurrences->of_block,
                                         occurrences->capacity * sizeof *occurrences->of_block);
    VG_(memset)(occurrences->of_block + old, 0,
                (occurrences->capacity - old) * sizeof *occurrences->of_block);
  }
  BlockOccurrences* const made = VG_(calloc)(
      "tare.occurrences", 1, sizeof(BlockOccurrences) + places_of(block) * kinds * sizeof(ULong));
  made->block = block;
  return occurrences->of_block[block->number] = made;
}

ULong* occurrences_at(Occurrences* occurrences, const BasicBlock* block, UInt at, UInt kind) {
  BlockOccurrences* found =
      block->number < occurrences->capacity ? occurrences->of_block[block->number] : NULL;
  if (found == NULL) found = new_of_block(occurrences, block);
  return &found->count[at * kinds + kind];
}

void occurrences_visit(const Occurrences* occurrences,
                       void (*visit)(const BasicBlock* block, UInt at, UInt kind, ULong count,
                                     void* to),
                       void* to) {
  for (UInt i = 0; i < occurrences->capacity; ++i) {
    const BlockOccurrences* const of_block = occurrences->of_block[i];
    if (of_block == NULL) continue;
    const ULong* count = of_block->count;
    for (UInt at = 0; at < places_of(of_block->block); ++at)
      for (UInt kind = 0; kind < kinds; ++kind, ++count)
        if (*count != 0) visit(of_block->block, at, kind, *count, to);
  }
}

void occurrences_clear(Occurrences* occurrences) {
  for (UInt i = 0; i < occurrences->capacity; ++i)
    if (occurrences->of_block[i] != NULL) VG_(free)(occurrences->of_block[i]);
  if (occurrences->of_block != NULL) VG_(free)(occurrences->of_block);
  *occurrences = (Occurrences){NULL, 0};
}
