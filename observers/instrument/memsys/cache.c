// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache.h"

enum { HINTS_FOR_A_LINE = 2, FEWEST_HINTS = 2048 };

void cache_initialise(Cache* cache, ULong sets, UInt ways, UInt line_bytes) {
  cache->sets = sets;
  cache->ways = ways;
  cache->clock = 0;
  cache->mask = (sets & (sets - 1)) == 0 ? sets - 1 : 0;
  cache->shift = 31 - (UInt)__builtin_clz(line_bytes);
  cache->slots = VG_(malloc)("tare.cache", sets * ways * sizeof *cache->slots);
  for (ULong i = 0; i < sets * ways; ++i) cache->slots[i] = (Slot){NO_LINE, 0};
  if (ways == 1 && cache->mask + 1 == sets) {
    cache->direct = VG_(malloc)("tare.cache", sets * sizeof *cache->direct);
    for (ULong i = 0; i < sets; ++i) cache->direct[i] = NO_LINE;
  }
  ULong hints = FEWEST_HINTS;
  while (hints < HINTS_FOR_A_LINE * sets * ways) hints *= 2;
  cache->hint_mask = hints - 1;
  cache->hints = VG_(malloc)("tare.cache", hints * sizeof *cache->hints);
  for (ULong i = 0; i < hints; ++i) cache->hints[i] = cache->slots;
}

static Slot* set_of(const Cache* cache, ULong line) {
  const ULong set = cache->mask != 0 ? line & cache->mask : line % cache->sets;
  return cache->slots + set * cache->ways;
}

static void use(Cache* cache, Slot* slot, ULong line) {
  slot->line = line;
  slot->time = ++cache->clock;
  cache->hints[line & cache->hint_mask] = slot;
}

Bool cache_touch_present(Cache* cache, ULong line) {
  if (cache_touch_hinted(cache, line)) return True;
  Slot* const set = set_of(cache, line);
  for (UInt way = 0; way < cache->ways; ++way) {
    if (set[way].line != line) continue;
    use(cache, &set[way], line);
    return True;
  }
  return False;
}

Bool cache_touch(Cache* cache, ULong line, ULong* out) {
  if (cache_touch_present(cache, line)) return True;
  Slot* const set = set_of(cache, line);
  Slot* oldest = set;
  for (UInt way = 1; way < cache->ways; ++way)
    if (set[way].time < oldest->time) oldest = &set[way];
  *out = oldest->line;
  use(cache, oldest, line);
  return False;
}

void cache_remove(Cache* cache, ULong line) {
  Slot* const set = set_of(cache, line);
  for (UInt way = 0; way < cache->ways; ++way)
    if (set[way].line == line) set[way] = (Slot){NO_LINE, 0};
}
