// SPDX-License-Identifier: GPL-2.0-or-later
// Levels of caches.

#include "hierarchy.h"

static void refer(Model* model, UInt level, Kind kind, Bool stores, Addr from, Addr to,
                  Counts* counts);

static Cache* cache_at(Model* model, UInt level, Kind kind) {
  return level == 0 ? first_level(model, kind) : &model->below[level - 1];
}

static void remove_bytes(Cache* cache, Addr from, Addr to) {
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    cache_remove(cache, line);
}

static void remove_above(Model* model, UInt level, const Cache* cache, ULong line) {
  const Addr from = line << cache->shift;
  const Addr to = from + ((ULong)1 << cache->shift) - 1;
  if (!model->unified) remove_bytes(&model->instruction, from, to);
  remove_bytes(&model->data, from, to);
  for (UInt above = 1; above < level; ++above) remove_bytes(&model->below[above - 1], from, to);
}

static Bool touch(Model* model, UInt level, Cache* cache, Bool stores, ULong line) {
  if (stores && !cache->fetches_writes) return cache_touch_present(cache, line);
  ULong out = NO_LINE;
  if (cache_touch(cache, line, &out)) return True;
  if (out != NO_LINE && cache->includes_above) remove_above(model, level, cache, out);
  return False;
}

static void refer_line(Model* model, UInt level, Kind kind, Bool stores, Cache* cache, ULong line,
                       Addr from, Addr to, Counts* counts) {
  const Addr start = line << cache->shift;
  const Addr end = start + ((ULong)1 << cache->shift) - 1;
  if (!touch(model, level, cache, stores, line)) {
    count_event(model, counts, miss_of(kind, level), 1);
    if (!stores || cache->fetches_writes)
      refer(model, level + 1, kind, False, start, end, counts);
    else if (!cache->writes_through)
      refer(model, level + 1, kind, True, from > start ? from : start, to < end ? to : end, counts);
  }
  if (stores && cache->writes_through)
    refer(model, level + 1, kind, True, from > start ? from : start, to < end ? to : end, counts);
}

// As cachegrind has it.
static void refer_whole(Model* model, UInt level, Kind kind, Addr from, Addr to, Counts* counts) {
  for (; level < model->levels; ++level) {
    Cache* const cache = cache_at(model, level, kind);
    Bool missed = False;
    for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line) {
      ULong out;
      if (!cache_touch(cache, line, &out)) missed = True;
    }
    if (!missed) return;
    count_event(model, counts, miss_of(kind, level), 1);
  }
}

static void refer(Model* model, UInt level, Kind kind, Bool stores, Addr from, Addr to,
                  Counts* counts) {
  if (level == model->levels) return;
  Cache* const cache = cache_at(model, level, kind);
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    refer_line(model, level, kind, stores, cache, line, from, to, counts);
}

static void translate(Model* model, Cache* pages, Kind kind, Addr from, Addr to, Counts* counts) {
  for (ULong page = from >> pages->shift; page <= to >> pages->shift; ++page) {
    ULong out;
    if (!cache_touch_hinted(pages, page) && !cache_touch(pages, page, &out))
      count_event(model, counts, translation_miss_of(kind), 1);
  }
}

static inline void access_bytes(Model* model, Kind kind, Addr from, Addr to, Counts* counts) {
  if (kind == FETCH ? model->translates_fetches : model->translates_data) {
    Cache* const pages =
        kind == FETCH && !model->unified_pages ? &model->instruction_pages : &model->data_pages;
    translate(model, pages, kind, from, to, counts);
  }
  Cache* const cache = first_level(model, kind);
  const ULong line = from >> cache->shift;
  const Bool stays = kind != WRITE || !cache->writes_through;
  if (stays && line == to >> cache->shift && cache_touch_hinted(cache, line)) return;
  if (model->whole_accesses)
    refer_whole(model, 0, kind, from, to, counts);
  else
    refer(model, 0, kind, kind == WRITE, from, to, counts);
}

// As cachegrind cuts accesses that are larger than a line.
static UInt counted_size(const Model* model, const Access* access) {
  const UInt line = 1U << model->data.shift;
  return model->whole_accesses && access->size > line ? line : access->size;
}

static void access_data(Model* model, const Access* access, Addr address, Counts* counts) {
  if ((access->flags & CONDITIONAL) && address == 0) return;
  access_bytes(model, access->flags & WRITES ? WRITE : READ, address,
               address + counted_size(model, access) - 1, counts);
}

// Everything in the order of the program.
static __attribute__((noinline)) void run_in_order(Model* model, const BasicBlock* block,
                                                   const ULong* addresses, Counts* counts) {
  const Access* const access = block->access;
  UInt fetch = 0;
  model->block = block;
  for (UInt i = 0; i <= block->accesses; ++i) {
    while (fetch < block->fetches && block->fetch[fetch].before <= i) {
      const Addr from = block->fetch[fetch].chunk & ~CONTINUES;
      Addr to = from;
      model->at = block->fetch[fetch].at;
      // A chunk is part of a line, so the next line begins where a chunk does.
      while (++fetch < block->fetches && (block->fetch[fetch].chunk & CONTINUES))
        to = block->fetch[fetch].chunk & ~CONTINUES;
      access_bytes(model, FETCH, from, to, counts);
    }
    if (i == block->accesses) break;
    model->at = access[i].at;
    access_data(model, &access[i], access_address(&access[i], addresses), counts);
  }
}

// Where the first level is split and nothing below takes lines out of it, what instructions find
// there does not depend on data accesses. So the fetches of a block go first, and only those that
// miss are put in their order among the data accesses, for the levels that both share.

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct {
  Addr from;
  Addr to;
  UShort before;
  UShort at;
} MissedFetch;

static __attribute__((noinline)) void miss_first(Model* model, Kind kind, Addr from, Addr to,
                                                 Counts* counts) {
  count_event(model, counts, miss_of(kind, 0), 1);
  if (model->whole_accesses) {
    refer_whole(model, 1, kind, from, to, counts);
  } else {
    const ULong line = (ULong)1 << first_level(model, kind)->shift;
    refer(model, 1, kind, False, from & ~(line - 1), from | (line - 1), counts);
  }
}

static ULong time_of_line(const NumberedLines* numbered, UInt line) {
  ULong time = numbered->times[line];
  if (time == 0) return 0;
  for (UInt chunk = line << numbered->shift; chunk >> numbered->shift == line; ++chunk)
    for (const Link* link = links_of_chunk(chunk); link != NULL; link = link->next)
      if (numbered->ran[link->block->number] > time) time = numbered->ran[link->block->number];
  return time;
}

static void forget_run(NumberedLines* numbered, const BasicBlock* block) {
  const ULong time = numbered->ran[block->number];
  if (time == 0) return;
  for (UInt i = 0; i < block->fetches; ++i) {
    ULong* const of_line = &numbered->times[line_of(numbered, &block->fetch[i])];
    if (*of_line < time) *of_line = time;
  }
  numbered->ran[block->number] = 0;
}

static void evict_line(NumberedLines* numbered, UInt line) {
  for (UInt chunk = line << numbered->shift; chunk >> numbered->shift == line; ++chunk)
    for (const Link* link = links_of_chunk(chunk); link != NULL; link = link->next)
      forget_run(numbered, link->block);
  numbered->times[line] = 0;
}

// As cache_touch, for the instruction cache.
static Bool touch_fetched(Model* model, const Fetch* fetch) {
  Cache* const cache = &model->instruction;
  NumberedLines* const numbered = &model->numbered;
  const UInt line = line_of(numbered, fetch);
  const Bool hit = numbered->times[line] != 0;
  if (!hit) {
    UInt* const set = numbered->lines + (fetch->chunk >> cache->shift & cache->mask) * cache->ways;
    UInt* oldest = set;
    ULong least = time_of_line(numbered, *set);
    for (UInt way = 1; way < cache->ways && least != 0; ++way) {
      const ULong time = time_of_line(numbered, set[way]);
      if (time >= least) continue;
      oldest = &set[way];
      least = time;
    }
    if (*oldest != 0) evict_line(numbered, *oldest);
    *oldest = line;
  }
  numbered->times[line] = ++cache->clock;
  return hit;
}

// After the fetches of `block`, where they can be known before.
static void note_run(Model* model, const BasicBlock* block) {
  if (block->fetches > 0 && lines_have_own_sets(&model->instruction, block))
    model->numbered.ran[block->number] = model->instruction.clock;
}

// Fills `missed` with the fetches that miss; returns their number.
static UInt run_fetches(Model* model, const BasicBlock* block, MissedFetch* missed,
                        Counts* counts) {
  UInt found = 0;
  for (UInt next = 0; next < block->fetches; ++next) {
    const UShort before = block->fetch[next].before, at = block->fetch[next].at;
    const Addr from = block->fetch[next].chunk;
    Addr to = from;
    model->at = at;
    if (model->translates_fetches)
      translate(model, &model->instruction_pages, FETCH, from, from, counts);
    Bool hit = touch_fetched(model, &block->fetch[next]);
    while (model->whole_accesses && next + 1 < block->fetches &&
           (block->fetch[next + 1].chunk & CONTINUES)) {
      to = block->fetch[++next].chunk;
      if (!touch_fetched(model, &block->fetch[next])) hit = False;
    }
    if (!hit) missed[found++] = (MissedFetch){from, to, before, at};
  }
  return found;
}

static __attribute__((noinline)) void run_access(Model* model, const Access* access, Addr from,
                                                 Counts* counts) {
  Cache* const cache = &model->data;
  const Kind kind = access->flags & WRITES ? WRITE : READ;
  const UInt size = counted_size(model, access);
  const Addr to = from + size - 1;
  Bool missed = False;
  if ((access->flags & CONDITIONAL) && from == 0) return;
  model->at = access->at;
  if (model->translates_data) translate(model, &model->data_pages, kind, from, to, counts);
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line) {
    ULong out;
    const Bool hit = cache_touch(cache, line, &out);
    model->quick_data[line % QUICK_HINTS] = cache_hint(cache, line);
    if (hit) continue;
    missed = True;
    if (!model->whole_accesses) miss_first(model, kind, line << cache->shift, to, counts);
  }
  if (missed && model->whole_accesses) miss_first(model, kind, from, to, counts);
}

static __attribute__((noinline)) void run_all(Model* model, const BasicBlock* block,
                                              const ULong* addresses, Counts* counts) {
  MissedFetch missed[MOST_FETCHES];
  const Access* const access = block->access;
  model->block = block;
  const UInt found = run_fetches(model, block, missed, counts);
  note_run(model, block);
  UInt next = 0;
  for (UInt i = 0; i <= block->accesses; ++i) {
    for (; next < found && missed[next].before <= i; ++next) {
      model->at = missed[next].at;
      miss_first(model, FETCH, missed[next].from, missed[next].to, counts);
    }
    if (i < block->accesses)
      run_access(model, &access[i], access_address(&access[i], addresses), counts);
  }
}

static __attribute__((noinline)) void run_place(Model* model, const BasicBlock* block,
                                                const Place* place, Addr address, Counts* counts) {
  Cache* const cache = &model->data;
  model->block = block;
  for (UInt i = place[0].first; i < place[1].first; ++i) {
    const Access* const access = &block->access[i];
    const Addr from = address + access->offset;
    const ULong line = from >> cache->shift;
    Slot* const slot = model->quick_data[line % QUICK_HINTS];
    if (slot->line == line && (from + access->size - 1) >> cache->shift == line)
      slot->time = ++cache->clock;
    else
      run_access(model, access, from, counts);
  }
}

// The two caches of the first level share a clock here, kept in a register and, while something
// else runs, in both. This is most of the time that a simulation takes: it must stay few
// instructions, and few variables.
ALWAYS_INLINE ULong run(Model* model, const ULong* word, const ULong* end, UInt data_shift,
                        Counts* counts) {
  Cache* const fetched = &model->instruction;
  Cache* const data = &model->data;
  ULong* const ran = model->numbered.ran;
  ULong clock = fetched->clock > data->clock ? fetched->clock : data->clock;
  ULong totals = 0;
  while (word < end) {
    const BasicBlock* const block = (const BasicBlock*)*word++;
    const ULong* const next = word + block->places;
    const Place* place = block->place;
    totals += block->totals;
    if (__builtin_expect(block->has_conditional, 0)) goto one_by_one;
    ULong* const time = &ran[block->number];
    if (__builtin_expect(*time == 0, 0)) goto one_by_one;
    *time = ++clock;
    for (; word != next; ++word, ++place) {
      const ULong line = *word >> data_shift;
      Slot* const slot = model->quick_data[line % QUICK_HINTS];
      if (__builtin_expect(slot->line != line, 0) ||
          __builtin_expect((*word + place->last) >> data_shift != line, 0)) {
        data->clock = clock;
        run_place(model, block, place, *word, counts);
        clock = data->clock;
      } else {
        slot->time = ++clock;
      }
    }
    continue;
  one_by_one:
    fetched->clock = data->clock = clock;
    run_all(model, block, word, counts);
    clock = fetched->clock > data->clock ? fetched->clock : data->clock;
    word = next;
  }
  fetched->clock = data->clock = clock;
  return totals;
}

Bool hierarchy_order_matters(const Model* model) {
  Bool matters = model->unified || (model->translates_fetches && model->unified_pages) ||
                 model->data.writes_through || !model->data.fetches_writes;
  for (UInt level = 1; level < model->levels; ++level)
    matters = matters || model->below[level - 1].includes_above;
  return matters;
}

enum { USUAL_SHIFT = 6 };

ULong hierarchy_run(Model* model, const ULong* word, const ULong* end, Counts* counts) {
  const Bool translates = model->translates_fetches || model->translates_data;
  const Bool in_order = hierarchy_order_matters(model);
  const UInt data_shift = model->data.shift;
  if (!in_order) lines_make_room(&model->numbered);
  if (!translates && !in_order)
    return data_shift == USUAL_SHIFT ? run(model, word, end, USUAL_SHIFT, counts)
                                     : run(model, word, end, data_shift, counts);
  ULong totals = 0;
  while (word < end) {
    const BasicBlock* const block = (const BasicBlock*)*word++;
    totals += block->totals;
    if (in_order)
      run_in_order(model, block, word, counts);
    else
      run_all(model, block, word, counts);
    word += block->places;
  }
  return totals;
}
