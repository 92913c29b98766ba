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
    if (!cache_touch_hinted(pages, page) && !cache_touch(pages, page, &out))
      ++counts->translation_misses[kind];
  }
}

static inline void access_bytes(Model* model, Kind kind, Addr from, Addr to, Counts* counts) {
  if (kind == FETCH ? model->translates_fetches : model->translates_data) {
    Cache* const pages =
        kind == FETCH && !model->unified_pages ? &model->instruction_pages : &model->data_pages;
    translate(pages, kind, from, to, counts);
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
static __attribute__((noinline)) void run_in_order(Model* model, const Stretch* stretch,
                                                   const ULong* addresses, Counts* counts) {
  const Access* const access = stretch->access;
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

// Fills `missed` with what is missed from the fetch `next` on; returns the number.
static UInt run_fetches(Model* model, const Stretch* stretch, UInt next, MissedFetch* missed,
                        Counts* counts) {
  Cache* const cache = &model->instruction;
  UInt found = 0;
  ULong out;
  for (; next < stretch->fetches; ++next) {
    const UInt before = stretch->fetch[next].before;
    const Addr from = stretch->fetch[next].chunk;
    Addr to = from;
    if (model->translates_fetches) translate(&model->instruction_pages, FETCH, from, from, counts);
    Bool hit = cache_touch(cache, from >> cache->shift, &out);
    model->quick_instruction[(from >> cache->shift) % QUICK_HINTS] =
        cache_hint(cache, from >> cache->shift);
    while (model->whole_accesses && next + 1 < stretch->fetches &&
           (stretch->fetch[next + 1].chunk & CONTINUES)) {
      to = stretch->fetch[++next].chunk;
      if (!cache_touch(cache, to >> cache->shift, &out)) hit = False;
    }
    if (!hit) missed[found++] = (MissedFetch){from, to, before};
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
  if (model->translates_data) translate(&model->data_pages, kind, from, to, counts);
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

// A stretch, but for the fetches before `fetch`, which have been run.
static __attribute__((noinline)) void run_rest(Model* model, const Stretch* stretch, UInt fetch,
                                               const ULong* addresses, Counts* counts) {
  MissedFetch missed[MOST_FETCHES];
  const Access* const access = stretch->access;
  const UInt found = run_fetches(model, stretch, fetch, missed, counts);
  UInt next = 0;
  for (UInt i = 0; i <= stretch->accesses; ++i) {
    for (; next < found && missed[next].before <= i; ++next)
      miss_first(model, FETCH, missed[next].from, missed[next].to, counts);
    if (i < stretch->accesses) run_access(model, &access[i], addresses[i], counts);
  }
}

// Whether the instruction cache holds `line`, which then becomes the latest used.
static __attribute__((noinline)) Bool find_fetched(Model* model, ULong line) {
  if (!cache_touch_present(&model->instruction, line)) return False;
  model->quick_instruction[line % QUICK_HINTS] = cache_hint(&model->instruction, line);
  return True;
}

// The two caches of the first level share a clock here, kept in a register and, while something
// else runs, in both. This is most of the time that a simulation takes: it must stay few
// instructions, and few variables.
ALWAYS_INLINE ULong run(Model* model, const ULong* word, const ULong* end, UInt fetch_shift,
                        UInt data_shift, Counts* counts) {
  Cache* const fetched = &model->instruction;
  Cache* const data = &model->data;
  ULong clock = fetched->clock > data->clock ? fetched->clock : data->clock;
  ULong totals = 0;
  while (word < end) {
    const Stretch* const stretch = (const Stretch*)*word++;
    const ULong* const next = word + stretch->accesses;
    const Access* access = stretch->access;
    const Fetch* fetch = stretch->fetch;
    totals += stretch->totals;
    if (__builtin_expect(stretch->has_conditional, 0)) goto in_part;
    for (; fetch != (const Fetch*)access; ++fetch) {
      const ULong line = fetch->chunk >> fetch_shift;
      Slot* const slot = model->quick_instruction[line % QUICK_HINTS];
      if (__builtin_expect(slot->line != line, 0)) {
        fetched->clock = clock;
        if (!find_fetched(model, line)) goto in_part;
        clock = fetched->clock;
      } else {
        slot->time = ++clock;
      }
    }
    for (; word != next; ++word, ++access) {
      const ULong line = *word >> data_shift;
      Slot* const slot = model->quick_data[line % QUICK_HINTS];
      if (__builtin_expect(slot->line != line, 0) ||
          __builtin_expect((*word + access->size - 1) >> data_shift != line, 0)) {
        data->clock = clock;
        run_access(model, access, *word, counts);
        clock = data->clock;
      } else {
        slot->time = ++clock;
      }
    }
    continue;
  in_part:
    fetched->clock = data->clock = clock;
    while (fetch != (const Fetch*)access && (fetch->chunk & CONTINUES)) --fetch;
    run_rest(model, stretch, (UInt)(fetch - stretch->fetch), word, counts);
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
  const UInt fetch_shift = model->instruction.shift, data_shift = model->data.shift;
  if (!translates && !hierarchy_order_matters(model))
    return fetch_shift == USUAL_SHIFT && data_shift == USUAL_SHIFT
               ? run(model, word, end, USUAL_SHIFT, USUAL_SHIFT, counts)
               : run(model, word, end, fetch_shift, data_shift, counts);
  const Bool in_order = hierarchy_order_matters(model);
  ULong totals = 0;
  while (word < end) {
    const Stretch* const stretch = (const Stretch*)*word++;
    totals += stretch->totals;
    if (in_order)
      run_in_order(model, stretch, word, counts);
    else
      run_rest(model, stretch, 0, word, counts);
    word += stretch->accesses;
  }
  return totals;
}
