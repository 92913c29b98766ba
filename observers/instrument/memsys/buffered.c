// SPDX-License-Identifier: GPL-2.0-or-later
// One level of write-through caches over a write buffer. The data cache may have lines smaller than
// what a read miss fetches; a write makes its line present without fetching.

#include "model.h"

static void fetch_chunk(Model* model, ULong chunk, Counts* counts) {
  Cache* const cache = first_level(model, FETCH);
  const ULong line = chunk >> cache->shift;
  ULong out;
  if (cache_touch(cache, line, &out)) return;
  ++counts->misses[FETCH][0];
  model->cycle += model->fetch_miss_cycles;
}

static void read_unit(Model* model, ULong unit, Addr from, Addr to, Counts* counts) {
  Cache* const cache = &model->data;
  const ULong start = unit * model->read_fetch_bytes;
  const ULong end = start + model->read_fetch_bytes - 1;
  const ULong last = (to < end ? to : end) >> cache->shift;
  Bool present = True;
  for (ULong line = (from > start ? from : start) >> cache->shift; line <= last; ++line)
    if (!cache_touch_present(cache, line)) present = False;
  if (present) return;
  ++counts->misses[READ][0];
  model->cycle += model->read_miss_cycles;
  ULong out;
  for (ULong line = start >> cache->shift; line <= end >> cache->shift; ++line)
    cache_touch(cache, line, &out);
}

// Memory takes entries one after the other, in order, each from the moment that it is there.
static void buffer_write(Model* model, Addr address, Counts* counts) {
  WriteBuffer* const buffer = &model->buffer;
  ULong* const slot = &buffer->finish[buffer->next];
  if (*slot > model->cycle) {
    counts->buffer_stall_cycles += *slot - model->cycle;
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
  ULong out;
  for (ULong line = from >> cache->shift; line <= to >> cache->shift; ++line)
    if (!cache_touch(cache, line, &out)) ++counts->misses[WRITE][0];
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
    const Stretch* const stretch = (const Stretch*)*word++;
    totals += stretch->totals;
    const Access* const access = stretch->access;
    UInt fetch = 0;
    UInt passed = 0;  // instructions whose cycle is in model->cycle
    for (UInt i = 0; i <= stretch->accesses; ++i) {
      for (; fetch < stretch->fetches && stretch->fetch[fetch].before <= i; ++fetch) {
        model->cycle += stretch->fetch[fetch].at - passed;
        passed = stretch->fetch[fetch].at;
        fetch_chunk(model, stretch->fetch[fetch].chunk, counts);
      }
      if (i == stretch->accesses) break;
      model->cycle += access[i].at - passed;
      passed = access[i].at;
      access_data(model, &access[i], word[i], counts);
    }
    model->cycle += packed_instructions(stretch->totals) - passed;
    word += stretch->accesses;
  }
  return totals;
}
