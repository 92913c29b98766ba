// SPDX-License-Identifier: GPL-2.0-or-later
#include "occurrences.h"

#include "memory.h"

static UInt kinds;

void occurrences_initialise(UInt different_kinds) { kinds = different_kinds; }

// What goes on with an instruction that began in another block has none of its own.
static UInt places_of(const BasicBlock* block) {
  const UInt instructions = (UInt)packed_instructions(block->totals);
  return instructions == 0 ? 1 : instructions;
}

static SizeT bytes_of(const BasicBlock* block) {
  return sizeof(BlockOccurrences) + places_of(block) * kinds * sizeof(ULong);
}

static BlockOccurrences* new_of_block(Occurrences* occurrences, const BasicBlock* block) {
  if (block->number >= occurrences->capacity) {
    const UInt old = occurrences->capacity;
    occurrences->capacity = 2 * basic_block_numbers();
    const SizeT each = sizeof *occurrences->of_block;
    occurrences->of_block =
        memory_grown(occurrences->of_block, old * each, occurrences->capacity * each);
  }
  BlockOccurrences* const made = memory_new(bytes_of(block));
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
  for (UInt i = 0; i < occurrences->capacity; ++i) {
    BlockOccurrences* const of_block = occurrences->of_block[i];
    if (of_block == NULL) continue;
    VG_(memset)(of_block->count, 0, bytes_of(of_block->block) - sizeof *of_block);
  }
}
