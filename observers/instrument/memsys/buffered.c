// SPDX-License-Identifier: GPL-2.0-or-later
// One level of write-through caches over a write buffer. The data cache may have lines smaller than
// what a read miss fetches; a write makes its line present without fetching.

#include "buffered.h"

// A direct-mapped cache, as these models have, needs neither hints nor times: only the line of each
// set.
static inline Bool is_present(Cache* cache, ULong line) {
  if (cache->direct == NULL) return cache_touch_present(cache, line);
  return cache->direct[line & cache->mask] == line;
}

static inline Bool touch(Cache* cache, ULong line) {
  ULong out;
  if (cache->direct == NULL) return cache_touch(cache, line, &out);
  ULong* const there = &cache->direct[line & cache->mask];
  if (*there == line) return True;
  *there = line;
  return False;
}

// What the blocks fetch can be known before they run: see NumberedLines. The times of lines are
// not needed.
Bool buffered_numbers_lines(const Model* model) {
  return !model->unified && model->instruction.direct != NULL;
}

static Bool touch_numbered(Model* model, const Fetch* fetch) {
  const Cache* const cache = &model->instruction;
  NumberedLines* const numbered = &model->numbered;
  UInt* const place = &numbered->lines[fetch->chunk >> cache->shift & cache->mask];
  const UInt line = line_of(numbered, fetch);
  if (*place == line) return True;
  if (*place != 0) lines_forget_runs(numbered, *place);
  *place = line;
  return False;
}

static void fetch_chunk(Model* model, const Fetch* fetch, Counts* counts) {
  Cache* const cache = first_level(model, FETCH);
  model->at = fetch->at;
  if (buffered_numbers_lines(model) ? touch_numbered(model, fetch)
                                    : touch(cache, fetch->chunk >> cache->shift))
    return;
  count_event(model, counts, miss_of(FETCH, 0), 1);
  model->cycle += model->fetch_miss_cycles;
}

static void read_unit(Model* model, ULong unit, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  const ULong start = unit << model->read_fetch_shift;
  const ULong end = start + ((ULong)1 << model->read_fetch_shift) - 1;
  const ULong last = (to < end ? to : end) >> cache->shift;
  Bool present = True;
  for (ULong line = (from > start ? from : start) >> cache->shift; line <= last; ++line)
    if (!is_present(cache, line)) present = False;
  if (present) return;
  count_event(model, counts, miss_of(READ, 0), 1);
  model->cycle += model->read_miss_cycles;
  for (ULong line = start >> cache->shift; line <= end >> cache->shift; ++line) touch(cache, line);
}

// Memory takes entries one after the other, in order, each from the moment that it is there.
static inline void buffer_write(Model* model, Addr address, Counts* counts) {
  WriteBuffer* const buffer = &model->buffer;
  ULong* const slot = &buffer->finish[buffer->next];
  ULong now = model->cycle + model->at;
  if (*slot > now) {
    count_event(model, counts, BUFFER_STALLS, *slot - now);
    model->cycle += *slot - now;
    now = *slot;
  }
  const ULong page = address >> buffer->page_shift;
  const UInt takes =
      page == buffer->last_page ? buffer->same_page_cycles : buffer->other_page_cycles;
  const ULong begins = buffer->last_finish > now ? buffer->last_finish : now;
  buffer->last_page = page;
  *slot = buffer->last_finish = begins + takes;
  buffer->next = buffer->next + 1 == buffer->entries ? 0 : buffer->next + 1;
}

static inline void write_bytes(Model* model, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  const UInt width = model->buffer.width_shift;
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    if (!touch(cache, line)) count_event(model, counts, miss_of(WRITE, 0), 1);
  for (ULong word = from >> width; word <= to >> width; ++word)
    buffer_write(model, word << width, counts);
}

static inline void read_bytes(Model* model, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  if (cache->direct != NULL) {  // most reads hit, and change nothing
    ULong line = from >> cache->shift;
    while (line <= to >> cache->shift && cache->direct[line & cache->mask] == line) ++line;
    if (line > to >> cache->shift) return;
  }
  const UInt shift = model->read_fetch_shift;
  for (ULong unit = from >> shift; unit <= to >> shift; ++unit)
    read_unit(model, unit, from, to, counts);
}

static inline void access_data(Model* model, const Access* access, Addr from, Counts* counts) {
  if ((access->flags & CONDITIONAL) && from == 0) return;
  const Addr to = from + access->size - 1;
  model->at = access->at;
  if (access->flags & WRITES)
    write_bytes(model, from, to, counts);
  else
    read_bytes(model, from, to, counts);
}

static __attribute__((noinline)) void run_in_order(Model* model, const BasicBlock* block,
                                                   const ULong* addresses, Counts* counts) {
  const Access* const access = block->access;
  UInt fetch = 0;
  for (UInt i = 0; i <= block->accesses; ++i) {
    for (; fetch < block->fetches && block->fetch[fetch].before <= i; ++fetch)
      fetch_chunk(model, &block->fetch[fetch], counts);
    if (i < block->accesses)
      access_data(model, &access[i], access_address(&access[i], addresses), counts);
  }
}

ULong buffered_run(Model* model, const ULong* word, const ULong* end, Counts* counts) {
  const Bool numbers_lines = buffered_numbers_lines(model);
  NumberedLines* const numbered = &model->numbered;
  if (numbers_lines) lines_make_room(numbered);
  ULong totals = 0;
  while (word < end) {
    const BasicBlock* const block = (const BasicBlock*)*word++;
    totals += block->totals;
    model->block = block;
    if (numbers_lines && numbered->ran[block->number] != 0) {
      for (const Access* each = block->access; each < block->access + block->accesses; ++each)
        access_data(model, each, access_address(each, word), counts);
    } else {
      run_in_order(model, block, word, counts);
      if (numbers_lines && lines_have_own_sets(&model->instruction, block))
        numbered->ran[block->number] = 1;
    }
    model->cycle += packed_instructions(block->totals);
    word += block->places;
  }
  return totals;
}
