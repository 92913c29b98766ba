// SPDX-License-Identifier: GPL-2.0-or-later
#include "reachability.h"

#include "manager/counts.h"
#include "objects.h"
#include "own_memory.h"
#include "platform/guest.h"
#include "pub_tool_rangemap.h"

enum { OF_PROGRAM = 0, NO_ROOT = 1 };

static ULong period;
static ULong next_search;
static RangeMap* owners;  // of mapped memory

static UInt searches;
static UInt* mark_stack;  // of slots
static SizeT stack_used, stack_capacity;

void reachability_initialise(ULong period_bytes) {
  period = next_search = period_bytes;
  owners = VG_(newRangeMap)(VG_(malloc), "tare.owners", VG_(free), OF_PROGRAM);
}

void reachability_note_mapping(Addr start, SizeT bytes, Bool is_no_root) {
  if (owners != NULL && bytes > 0)
    VG_(bindRangeMap)(owners, start, start + bytes - 1, is_no_root ? NO_ROOT : OF_PROGRAM);
}

static void mark(Addr address) {
  if (!has_map_entry(address)) return;
  const UInt slot = *map_entry(address);
  if (slot == 0) return;
  Object* const object = object_in(slot);
  if (object->mark == searches) return;
  object->mark = searches;
  if (stack_used == stack_capacity) {
    stack_capacity = stack_capacity == 0 ? 4096 : 2 * stack_capacity;
    mark_stack = VG_(realloc)("tare.mark stack", mark_stack, stack_capacity * sizeof *mark_stack);
  }
  mark_stack[stack_used++] = slot;
}

// Objects that lie in a root, of regions, are looked into when they are reached.
static void mark_from_root(Addr start, Addr end) {
  start = VG_ROUNDUP(start, sizeof(Addr));
  for (const Addr* word = (const Addr*)start; (Addr)(word + 1) <= end; ++word)
    if (!regions_were_seen || *map_entry((Addr)word) == 0) mark(*word);
  while (stack_used > 0) {
    const Object* const object = object_in(mark_stack[--stack_used]);
    const Addr first = VG_ROUNDUP(object->address, sizeof(Addr));
    const Addr behind = object->address + object->size;
    for (const Addr* word = (const Addr*)first; (Addr)(word + 1) <= behind; ++word) mark(*word);
  }
}

// An operation has just returned to the thread that runs: what the others hold is the manager's.
static void mark_from_register(ThreadId thread, const HChar* name, UWord value) {
  if (thread != VG_(get_running_tid)() || is_kept_by_calls(name)) mark(value);
}

// The part of [start, end) before `end` that has one owner; its end is the result.
static Addr owned_until(Addr start, Addr end, UWord* owner) {
  UWord first, last;
  VG_(lookupRangeMap)(&first, &last, owner, owners, start);
  return last < end - 1 ? last + 1 : end;
}

// Of a stack only what is in use; with the thread's control block and static thread-local data,
// which lie behind it in the same mapping. Between [start, end) and other stacks are their guards.
static Addr first_in_use(Addr start, Addr end) {
  ThreadId thread;
  Addr first = end, lowest, highest;
  VG_(thread_stack_reset_iter)(&thread);
  while (VG_(thread_stack_next)(&thread, &lowest, &highest)) {
    const Addr in_use = lowest - (thread == VG_(get_running_tid)() ? 0 : RED_ZONE);
    if (in_use >= start && in_use < first) first = in_use;
  }
  return first < end ? first : start;
}

static void mark_from_range(Addr start, Addr end) {
  while (start < end) {
    UWord owner;
    const Addr until = owned_until(start, end, &owner);
    if (owner == OF_PROGRAM) mark_from_root(first_in_use(start, until), until);
    start = until;
  }
}

static void mark_from_memory(void) {
  Int count;
  Addr* const starts = VG_(get_segment_starts)(SkAnonC | SkFileC | SkShmC, &count);
  for (Int i = 0; i < count; ++i) {
    const NSegment* const segment = VG_(am_find_nsegment)(starts[i]);
    if (segment == NULL || !segment->hasR || !segment->hasW) continue;
    mark_from_range(segment->start, segment->end + 1);
  }
  VG_(free)(starts);
}

static void note_reachable(ULong clock) {
  Search search = {.clock = clock};
  for (UInt slot = 1; slot < objects_end(); ++slot) {
    Object* const object = object_in(slot);
    if (object->id == 0 || object_is_inherited(object)) continue;
    ++search.live_objects;
    search.live_bytes += object->size;
    if (object->mark == searches) {
      ++search.reachable_objects;
      search.reachable_bytes += object->size;
      // An earlier search may have missed the way to it.
      object->unreachable_clock = object->unreachable_bytes = 0;
    } else if (object->unreachable_clock == 0) {
      object->unreachable_clock = clock;
      object->unreachable_bytes = process_count.allocated_bytes;
    }
  }
  recording_add_search(&search);
}

// A manager may have taken memory before its first operation, when it was loaded.
static void claim_segment_of(Addr object) {
  UWord first, last, owner;
  VG_(lookupRangeMap)(&first, &last, &owner, owners, object);
  if (owner == NO_ROOT) return;
  const NSegment* const segment = VG_(am_find_nsegment)(object);
  if (segment != NULL && segment->kind == SkAnonC)
    reachability_note_mapping(segment->start, segment->end + 1 - segment->start, True);
}

void reachability_note_birth(Addr object, ULong clock) {
  claim_segment_of(object);
  reachability_note_region_birth(object, clock);
}

void reachability_note_region_birth(Addr object, ULong clock) {
  if (recording_options.reachability_bytes == 0 || process_count.allocated_bytes < next_search)
    return;
  next_search = process_count.allocated_bytes + period;
  ++searches;
  mark(object);
  VG_(apply_to_GP_regs)(mark_from_register);
  mark_from_memory();
  own_memory_visit(mark_from_root);
  note_reachable(clock);
}
