// SPDX-License-Identifier: GPL-2.0-or-later
#include "reachability.h"

#include "counts.h"
#include "objects.h"
#include "pub_tool_rangemap.h"
#include "regions.h"

enum { OF_PROGRAM = 0, OF_MANAGER = 1, RED_ZONE = 128 };

static ULong period;
static ULong next_search;
static RangeMap* owners;  // of mapped memory

static UInt search;  // the number of this one
static UInt* found;  // slots to look into; a stack
static SizeT found_used, found_capacity;
static Mark mark;

void reachability_initialise(ULong period_bytes) {
  period = next_search = period_bytes;
  owners = VG_(newRangeMap)(VG_(malloc), "tare.owners", VG_(free), OF_PROGRAM);
}

void reachability_note_mapping(Addr start, SizeT bytes, Bool of_manager) {
  if (owners != NULL && bytes > 0)
    VG_(bindRangeMap)(owners, start, start + bytes - 1, of_manager ? OF_MANAGER : OF_PROGRAM);
}

static void reach(Addr address) {
  if (!has_map_entry(address)) return;
  const UInt slot = *map_entry(address);
  if (slot == 0) return;
  Object* const object = object_in(slot);
  if (object->mark == search) return;
  object->mark = search;
  if (found_used == found_capacity) {
    found_capacity = found_capacity == 0 ? 4096 : 2 * found_capacity;
    found = VG_(realloc)("tare.found", found, found_capacity * sizeof *found);
  }
  found[found_used++] = slot;
}

// What objects lie in a root, of regions, are looked into when they are reached.
static void reach_from_root(Addr start, Addr end) {
  start = VG_ROUNDUP(start, sizeof(Addr));
  for (const Addr* word = (const Addr*)start; (Addr)(word + 1) <= end; ++word)
    if (!regions_were_told || *map_entry((Addr)word) == 0) reach(*word);
  while (found_used > 0) {
    const Object* const object = object_in(found[--found_used]);
    const Addr first = VG_ROUNDUP(object->address, sizeof(Addr));
    const Addr behind = object->address + object->size;
    for (const Addr* word = (const Addr*)first; (Addr)(word + 1) <= behind; ++word) reach(*word);
  }
}

static void reach_from_register(ThreadId thread, const HChar* name, UWord value) {
  (void)thread, (void)name;
  reach(value);
}

// The part of [start, end) before `end` that has one owner; its end is the result.
static Addr owned_until(Addr start, Addr end, UWord* owner) {
  UWord first, last;
  VG_(lookupRangeMap)(&first, &last, owner, owners, start);
  return last < end - 1 ? last + 1 : end;
}

static void reach_from_range(Addr start, Addr end) {
  while (start < end) {
    UWord owner;
    const Addr until = owned_until(start, end, &owner);
    if (owner == OF_PROGRAM) reach_from_root(start, until);
    start = until;
  }
}

// Of a stack only what is in use; with the thread's control block and static thread-local data,
// which lie behind it in the same mapping.
static Addr stack_start(const NSegment* segment) {
  ThreadId thread;
  Addr start = segment->start, lowest, highest;
  VG_(thread_stack_reset_iter)(&thread);
  while (VG_(thread_stack_next)(&thread, &lowest, &highest)) {
    const Addr in_use = lowest - RED_ZONE;
    if (in_use >= segment->start && in_use <= segment->end && in_use > start) start = in_use;
  }
  return start;
}

static void reach_from_memory(void) {
  Int count;
  Addr* const starts = VG_(get_segment_starts)(SkAnonC | SkFileC | SkShmC, &count);
  for (Int i = 0; i < count; ++i) {
    const NSegment* const segment = VG_(am_find_nsegment)(starts[i]);
    if (segment == NULL || !segment->hasR || !segment->hasW) continue;
    reach_from_range(stack_start(segment), segment->end + 1);
  }
  VG_(free)(starts);
}

static void note_what_was_found(ULong clock) {
  mark = (Mark){.clock = clock};
  for (UInt slot = 1; slot < objects_end(); ++slot) {
    Object* const object = object_in(slot);
    if (object->id == 0 || object_is_inherited(object)) continue;
    ++mark.live_objects;
    mark.live_bytes += object->size;
    if (object->mark == search) {
      ++mark.reachable_objects;
      mark.reachable_bytes += object->size;
      // An earlier search may have missed the way to it.
      object->unreachable_clock = object->unreachable_bytes = 0;
    } else if (object->unreachable_clock == 0) {
      object->unreachable_clock = clock;
      object->unreachable_bytes = process_count.allocated_bytes;
    }
  }
  trace_mark(&mark);
}

// A manager may have taken memory before its first operation, when it was loaded.
static void claim_segment_of(Addr object) {
  UWord first, last, owner;
  VG_(lookupRangeMap)(&first, &last, &owner, owners, object);
  if (owner == OF_MANAGER) return;
  const NSegment* const segment = VG_(am_find_nsegment)(object);
  if (segment != NULL && segment->kind == SkAnonC)
    reachability_note_mapping(segment->start, segment->end + 1 - segment->start, True);
}

void reachability_note_birth(Addr object, ULong clock) {
  claim_segment_of(object);
  reachability_search_if_due(clock);
}

void reachability_search_if_due(ULong clock) {
  if (trace_options.reachability_bytes == 0 || process_count.allocated_bytes < next_search) return;
  next_search = process_count.allocated_bytes + period;
  ++search;
  VG_(apply_to_GP_regs)(reach_from_register);
  reach_from_memory();
  regions_visit_own(reach_from_root);
  note_what_was_found(clock);
}
