// SPDX-License-Identifier: GPL-2.0-or-later
// One level of write-through caches over a write buffer. The data cache may have lines smaller than
// what a read miss fetches; a write makes its line present without fetching.

#include "buffered.h"

// A direct-mapped cache, as these models have, needs neither hints nor times.
static inline Bool is_present(Cache* cache, ULong line) {
  if (cache->ways > 1) return cache_touch_present(cache, line);
  return cache->slots[line & cache->mask].line == line;
}

static inline Bool touch(Cache* cache, ULong line) {
  ULong out;
  if (cache->ways > 1) return cache_touch(cache, line, &out);
  Slot* const slot = &cache->slots[line & cache->mask];
  if (slot->line == line) return True;
  slot->line = line;
  return False;
}

static void fetch_chunk(Model* model, ULong chunk, Counts* counts) {
  Cache* const cache = first_level(model, FETCH);
  const ULong line = chunk >> cache->shift;
  if (touch(cache, line)) return;
  count_event(model, counts, miss_of(FETCH, 0), 1);
  model->cycle += model->fetch_miss_cycles;
}

static void read_unit(Model* model, ULong unit, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  const ULong start = unit * model->read_fetch_bytes;
  const ULong end = start + model->read_fetch_bytes - 1;
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
static void buffer_write(Model* model, Addr address, Counts* counts) {
  WriteBuffer* const buffer = &model->buffer;
  ULong* const slot = &buffer->finish[buffer->next];
  if (*slot > model->cycle) {
    count_event(model, counts, BUFFER_STALLS, *slot - model->cycle);
    model->cycle = *slot;
  }
  const ULong page = address >> buffer->page_shift;
  const UInt takes =
      page == buffer->last_page ? buffer->same_page_cycles : buffer->other_page_cycles;
  const ULong begins = buffer->last_finish > model->cycle ? buffer->last_finish : model->cycle;
  buffer->last_page = page;
  *slot = buffer->last_finish = begins + takes;
  buffer->next = buffer->next + 1 == buffer->entries ? 0 : buffer->next + 1;
}

static void write_bytes(Model* model, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  const UInt width = model->buffer.width_shift;
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    if (!touch(cache, line)) count_event(model, counts, miss_of(WRITE, 0), 1);
  for (ULong word = from >> width; word <= to >> width; ++word)
    buffer_write(model, word << width, counts);
}

static void access_data(Model* model, const Access* access, Addr from, Counts* counts) {
  if ((access->flags & CONDITIONAL) && from == 0) return;
  const Addr to = from + access->size - 1;
  if (access->flags & WRITES) {
    write_bytes(model, from, to, counts);
    return;
  }
  for (ULong unit = from / model->read_fetch_bytes; unit <= to / model->read_fetch_bytes; ++unit)
    read_unit(model, unit, from, to, counts);
}

ULong buffered_run(Model* model, const ULong* word, const ULong* end, Counts* counts) {
  ULong totals = 0;
  while (word < end) {
    const BasicBlock* const block = (const BasicBlock*)*word++;
    totals += block->totals;
    const Access* const access = block->access;
    model->block = block;
    UInt fetch = 0;
    UInt passed = 0;  // instructions whose cycle is in model->cycle
    for (UInt i = 0; i <= block->accesses; ++i) {
      for (; fetch < block->fetches && block->fetch[fetch].before <= i; ++fetch) {
        model->cycle += block->fetch[fetch].at - passed;
        model->at = passed = block->fetch[fetch].at;
        fetch_chunk(model, block->fetch[fetch].chunk, counts);
      }
      if (i == block->accesses) break;
      model->cycle += access[i].at - passed;
      model->at = passed = access[i].at;
      access_data(model, &access[i], access_address(&access[i], word), counts);
    }
    model->cycle += packed_instructions(block->totals) - passed;
    word += block->places;
  }
  return totals;
}
