// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects.h"

#include "recording.h"

static UInt slots_used = 1;  // slot 0 belongs to no object
static UInt free_slot;       // 0: none
static UInt forks_so_far;

void objects_inherit(void) { ++forks_so_far; }

Bool object_is_inherited(const Object* object) { return object->forks != forks_so_far; }

UInt objects_end(void) { return slots_used; }

static UInt take_slot(void) {
  const UInt slot = free_slot;
  if (slot == 0) {
    tl_assert(slots_used >> SLOT_BITS == 0);
    return slots_used++;
  }
  free_slot = (UInt)object_in(slot)->address;
  return slot;
}

static void give_slot(UInt slot) {
  Object* const object = object_in(slot);
  object->address = free_slot;
  object->size = 0;
  object->id = 0;
  free_slot = slot;
}

static void note_peak(void) {
  ProcessCount* const count = &process_count;
  if (count->live_objects > count->max_live_objects) count->max_live_objects = count->live_objects;
  if (count->live_bytes > count->max_live_bytes) count->max_live_bytes = count->live_bytes;
  if (count->live_bytes > count->asked_max_live_bytes)
    count->asked_max_live_bytes = count->live_bytes;
}

// Takes the object out of the figures of what is alive; False for one from before a fork.
static Bool end_life(const Object* object) {
  if (object_is_inherited(object)) return False;
  --process_count.live_objects;
  process_count.live_bytes -= object->size;
  return True;
}

static void remove_object(UInt slot, const Death* death) {
  Object* const object = object_in(slot);
  if (object->id != 0 && !object_is_inherited(object)) recording_add_death(slot, death);
  // The end of a region can be seen late: its memory may be another's by then.
  if (*map_entry(object->address) == slot) map_fill(object->address, object->size, 0);
  give_slot(slot);
}

static void place(UInt slot, const Birth* birth) {
  Object* const object = object_in(slot);
  object->address = birth->address;
  object->size = birth->size;
  object->forks = forks_so_far;
  if (recording_is_on()) {
    object->unreachable_clock = 0;
    object->unreachable_bytes = 0;
    object->mark = 0;
    object->kept = 0;
    *use_of(slot) = (Use){0};
  }
  map_fill(birth->address, birth->size, slot);
}

static Death seen_at(ULong clock, Freeing freeing) {
  return (Death){.freeing = freeing, .clock = clock, .frees_since = NEVER_IN_TIME};
}

// A death that went unseen: a free by way of an interface which is not one of the family.
static void end_what_is_at(Addr address, ULong clock) {
  const UInt slot = object_at(address);
  if (slot == 0) return;
  end_life(object_in(slot));
  const Death death = seen_at(clock, BY_FREE);
  remove_object(slot, &death);
}

void object_born(const Birth* birth) {
  end_what_is_at(birth->address, birth->clock);
  ++process_count.objects;
  process_count.allocated_bytes += birth->size;
  ++process_count.live_objects;
  process_count.live_bytes += birth->size;
  note_peak();
  const UInt slot = take_slot();
  place(slot, birth);
  object_in(slot)->id = recording_add_birth(birth, 0);
}

Bool object_died(Addr address, const Death* death) {
  const UInt slot = object_at(address);
  if (slot == 0) {
    ++process_count.unknown_frees;
    return False;
  }
  if (end_life(object_in(slot)))
    ++process_count.freed_objects;
  else
    ++process_count.inherited_frees;
  remove_object(slot, death);
  return True;
}

void object_ended_by_region(UInt slot, ULong clock) {
  if (end_life(object_in(slot))) ++process_count.freed_objects;
  const Death death = seen_at(clock, BY_REGION);
  remove_object(slot, &death);
}

void object_resized(UInt slot, const Birth* birth) {
  if (slot == 0) {
    ++process_count.unknown_frees;
    object_born(birth);
    return;
  }
  const Object* const object = object_in(slot);
  const SizeT before = object->size;
  const ULong before_id = object_is_inherited(object) ? 0 : object->id;
  const Addr from = object->address;
  if (object_is_inherited(object)) {
    ++process_count.live_objects;  // from now on its life is this process's
    process_count.live_bytes += birth->size;
  } else {
    process_count.live_bytes += birth->size - before;
  }
  if (birth->size > before) process_count.allocated_bytes += birth->size - before;
  ++process_count.resized_objects;
  if (object->id != 0) object_used(from, 0, birth->clock);  // what it holds is kept
  const SizeT touched = recording_is_on() ? touched_bytes(slot) : 0;
  const Death death = seen_at(birth->clock, BY_REALLOC);
  remove_object(slot, &death);
  if (birth->address != from) end_what_is_at(birth->address, birth->clock);
  note_peak();
  const UInt next = take_slot();
  place(next, birth);
  object_in(next)->kept = touched;
  object_in(next)->id = recording_add_birth(birth, before_id);
}

void objects_finish(void) {
  const Death none = seen_at(0, NOT_FREED);
  for (UInt slot = 1; slot < slots_used; ++slot) {
    const Object* const object = object_in(slot);
    if (object->id != 0 && !object_is_inherited(object)) recording_add_death(slot, &none);
  }
}
