// SPDX-License-Identifier: GPL-2.0-or-later
// Levels of caches.

#include "model.h"

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
    ++counts->misses[kind][level];
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
    ++counts->misses[kind][level];
  }
}

static void refer(Model* model, UInt level, Kind kind, Bool stores, Addr from, Addr to,
                  Counts* counts) {
  if (level == model->levels) return;
  Cache* const cache = cache_at(model, level, kind);
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    refer_line(model, level, kind, stores, cache, line, from, to, counts);
}

static void translate(Cache* pages, Kind kind, Addr from, Addr to, Counts* counts) {
  for (ULong page = from >> pages->shift; page <= to >> pages->shift; ++page) {
    ULong out;
    if (!cache_touch(pages, page, &out)) ++counts->translation_misses[kind];
  }
}

static void access_bytes(Model* model, Kind kind, Addr from, Addr to, Counts* counts) {
  const Bool translates = kind == FETCH ? model->translates_fetches : model->translates_data;
  if (translates) {
    Cache* const pages =
        kind == FETCH && !model->unified_pages ? &model->instruction_pages : &model->data_pages;
    translate(pages, kind, from, to, counts);
  }
  if (model->whole_accesses)
    refer_whole(model, 0, kind, from, to, counts);
  else
    refer(model, 0, kind, kind == WRITE, from, to, counts);
}

static __attribute__((noinline)) void access_data(Model* model, const Access* access, Addr address,
                                                  Counts* counts) {
  if ((access->flags & CONDITIONAL) && address == 0) return;
  UInt size = access->size;
  const UInt line = 1U << model->data.shift;
  if (model->whole_accesses && size > line) size = line;
  access_bytes(model, access->flags & WRITES ? WRITE : READ, address, address + size - 1, counts);
}

// Everything in the order of the program.
static __attribute__((noinline)) void run_in_order(Model* model, const Stretch* stretch,
                                                   const ULong* addresses, Counts* counts) {
  const Access* const access = accesses_of(stretch);
  UInt fetch = 0;
  for (UInt i = 0; i <= stretch->accesses; ++i) {
    while (fetch < stretch->fetches && stretch->fetch[fetch].before <= i) {
      const Addr from = stretch->fetch[fetch].chunk & ~CONTINUES;
      Addr to = from;
      // A chunk is part of a line, so the next line begins where a chunk does.
      while (++fetch < stretch->fetches && (stretch->fetch[fetch].chunk & CONTINUES))
        to = stretch->fetch[fetch].chunk & ~CONTINUES;
      access_bytes(model, FETCH, from, to, counts);
    }
    if (i < stretch->accesses) access_data(model, &access[i], addresses[i], counts);
  }
}

// Where the first level is split and nothing below takes lines out of it, what instructions find
// there does not depend on data accesses. So the fetches of a stretch go first, and only those that
// miss are put in their order among the data accesses, for the levels that both share.

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef struct {
  Addr from;
  Addr to;
  UInt before;
} MissedFetch;

ALWAYS_INLINE Bool touch_first(Cache* cache, ULong line, ULong* clock) {
  if (cache_touch_hinted(cache, line, ++*clock)) return True;
  ULong out;
  cache->clock = *clock;
  const Bool hit = cache_touch(cache, line, &out);
  *clock = cache->clock;
  return hit;
}

static __attribute__((noinline)) void miss_first(Model* model, Kind kind, Addr from, Addr to,
                                                 Counts* counts) {
  ++counts->misses[kind][0];
  if (model->whole_accesses) {
    refer_whole(model, 1, kind, from, to, counts);
  } else {
    const ULong line = (ULong)1 << first_level(model, kind)->shift;
    refer(model, 1, kind, False, from & ~(line - 1), from | (line - 1), counts);
  }
}

// Fills `missed`; returns how many fetches of the stretch missed.
ALWAYS_INLINE UInt run_fetches(Model* model, const Stretch* stretch, ULong* clock,
                               MissedFetch* missed, Bool translates, Counts* counts) {
  Cache* const cache = &model->instruction;
  const Bool joins = model->whole_accesses;
  UInt found = 0;
  for (UInt i = 0; i < stretch->fetches; ++i) {
    const UInt before = stretch->fetch[i].before;
    const Addr from = stretch->fetch[i].chunk;
    Addr to = from;
    if (translates && model->translates_fetches)
      translate(&model->instruction_pages, FETCH, from, from, counts);
    Bool hit = touch_first(cache, from >> cache->shift, clock);
    while (joins && i + 1 < stretch->fetches && (stretch->fetch[i + 1].chunk & CONTINUES)) {
      to = stretch->fetch[++i].chunk;
      if (!touch_first(cache, to >> cache->shift, clock)) hit = False;
    }
    if (!hit) missed[found++] = (MissedFetch){from, to, before};
  }
  return found;
}

ALWAYS_INLINE void run_access(Model* model, const Access* access, Addr from, ULong* clock,
                              Bool translates, Counts* counts) {
  Cache* const cache = &model->data;
  const Addr to = from + access->size - 1;
  const ULong line = from >> cache->shift;
  if (__builtin_expect(line != to >> cache->shift || (access->flags & CONDITIONAL), 0)) {
    cache->clock = *clock;
    access_data(model, access, from, counts);
    *clock = cache->clock;
    return;
  }
  const Kind kind = access->flags & WRITES ? WRITE : READ;
  if (translates && model->translates_data) translate(&model->data_pages, kind, from, to, counts);
  if (!touch_first(cache, line, clock)) miss_first(model, kind, from, to, counts);
}

static __attribute__((noinline)) void run_with_misses(Model* model, const Stretch* stretch,
                                                      const ULong* addresses, ULong* clock,
                                                      const MissedFetch* missed, UInt found,
                                                      Counts* counts) {
  const Access* const access = accesses_of(stretch);
  UInt next = 0;
  for (UInt i = 0; i <= stretch->accesses; ++i) {
    for (; next < found && missed[next].before <= i; ++next)
      miss_first(model, FETCH, missed[next].from, missed[next].to, counts);
    if (i < stretch->accesses) run_access(model, &access[i], addresses[i], clock, True, counts);
  }
}

ALWAYS_INLINE ULong run(Model* model, const ULong* word, const ULong* end, Bool translates,
                        Counts* counts) {
  MissedFetch missed[MOST_FETCHES];
  ULong fetch_clock = model->instruction.clock;
  ULong data_clock = model->data.clock;
  ULong totals = 0;
  while (word < end) {
    const Stretch* const stretch = (const Stretch*)*word++;
    totals += stretch->totals;
    const UInt found = run_fetches(model, stretch, &fetch_clock, missed, translates, counts);
    if (__builtin_expect(found > 0, 0)) {
      ULong clock = data_clock;  // a copy, so that the other stays in a register
      run_with_misses(model, stretch, word, &clock, missed, found, counts);
      data_clock = clock;
    } else {
      const Access* const access = accesses_of(stretch);
      for (UInt i = 0; i < stretch->accesses; ++i)
        run_access(model, &access[i], word[i], &data_clock, translates, counts);
    }
    word += stretch->accesses;
  }
  model->instruction.clock = fetch_clock;
  model->data.clock = data_clock;
  return totals;
}

// Whether a fetch and a data access can change what the other finds at the first level, or a write
// is more than a touch of its line.
static Bool order_matters(const Model* model) {
  Bool matters = model->unified || (model->translates_fetches && model->unified_pages) ||
                 model->data.writes_through || !model->data.fetches_writes;
  for (UInt level = 1; level < model->levels; ++level)
    matters = matters || model->below[level - 1].includes_above;
  return matters;
}

ULong hierarchy_run(Model* model, const ULong* word, const ULong* end, Counts* counts) {
  if (!order_matters(model)) {
    const Bool translates = model->translates_fetches || model->translates_data;
    return translates ? run(model, word, end, True, counts) : run(model, word, end, False, counts);
  }
  ULong totals = 0;
  while (word < end) {
    const Stretch* const stretch = (const Stretch*)*word++;
    totals += stretch->totals;
    run_in_order(model, stretch, word, counts);
    word += stretch->accesses;
  }
  return totals;
}
