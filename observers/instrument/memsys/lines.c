// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include "memory.h"

void lines_number(NumberedLines* numbered, const Cache* cache, UInt chunk_bytes) {
  numbered->shift = cache->shift - (31 - (UInt)__builtin_clz(chunk_bytes));
  numbered->lines = memory_new(cache->sets * cache->ways * sizeof *numbered->lines);
}

static ULong* grow_times(ULong* times, UInt* capacity, UInt needed) {
  if (needed <= *capacity) return times;
  const UInt old = *capacity;
  *capacity = 2 * needed;
  return memory_grown(times, old * sizeof *times, *capacity * sizeof *times);
}

void lines_make_room(NumberedLines* numbered) {
  numbered->times = grow_times(numbered->times, &numbered->numbers, linked_chunk_numbers());
  numbered->ran = grow_times(numbered->ran, &numbered->blocks, basic_block_numbers());
}

Bool lines_have_own_sets(const Cache* cache, const BasicBlock* block) {
  ULong lowest = NO_LINE, highest = 0;
  for (UInt i = 0; i < block->fetches; ++i) {
    const ULong line = block->fetch[i].chunk >> cache->shift;
    if (line < lowest) lowest = line;
    if (line > highest) highest = line;
  }
  return highest - lowest < cache->sets;
}

void lines_forget_runs(NumberedLines* numbered, UInt line) {
  for (UInt chunk = line << numbered->shift; chunk >> numbered->shift == line; ++chunk)
    for (const Link* link = links_of_chunk(chunk); link != NULL; link = link->next)
      numbered->ran[link->block->number] = 0;
}
