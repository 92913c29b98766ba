// SPDX-License-Identifier: GPL-2.0-or-later
#include "regions.h"

#include "own_memory.h"
#include "reachability.h"

// An object of a region, as long as what is in `slot` has these numbers.
typedef struct {
  ULong id;
  UInt forks;
  UInt slot;
} Member;

typedef struct _Region {
  struct _Region* next;  // in the table
  UWord name;            // what the program calls it: from 1, unique in it and its forks
  struct _Region *parent, *first_child, *before, *after;  // siblings
  RegionRow row;
  Member* members;  // and some that have died
  UInt used, capacity;
} Region;

enum { FIRST_MEMBERS = 8 };

static VgHashTable* regions;
static UInt last_name;
static UInt regions_so_far;  // of this process's recording

// One that was made before the recording is known from its first object on.
static Region* region_named(UWord name) {
  Region* region = VG_(HT_lookup)(regions, name);
  if (region == NULL) {
    region = VG_(calloc)("tare.region", 1, sizeof *region);
    region->name = name;
    VG_(HT_add_node)(regions, region);
  }
  if (region->row.number == 0) region->row.number = ++regions_so_far;
  return region;
}

static void record(Region* region, ULong destroyed_bytes) {
  if (region->row.number == 0) return;
  region->row.parent = region->parent != NULL ? region->parent->row.number : 0;
  region->row.destroyed_bytes = destroyed_bytes;
  recording_add_region(&region->row);
}

static void put_inside(Region* region, Region* parent) {
  region->parent = parent;
  region->after = parent->first_child;
  if (region->after != NULL) region->after->before = region;
  parent->first_child = region;
}

static void take_out(Region* region) {
  if (region->after != NULL) region->after->before = region->before;
  if (region->before != NULL)
    region->before->after = region->after;
  else if (region->parent != NULL)
    region->parent->first_child = region->after;
}

UInt regions_create(UWord parent, UInt site) {
  regions_were_seen = True;
  Region* const region = region_named(++last_name);
  region->row.site = site;
  region->row.created_bytes = process_count.allocated_bytes;
  if (parent != 0 && parent < last_name) put_inside(region, region_named(parent));
  record(region, 0);
  return last_name;
}

// ---- their objects ----

static Bool is_alive(const Member* member) {
  const Object* const object = object_in(member->slot);
  return object->id == member->id && object->forks == member->forks;
}

static void remove_dead(Region* region) {
  UInt alive = 0;
  for (UInt i = 0; i < region->used; ++i)
    if (is_alive(&region->members[i])) region->members[alive++] = region->members[i];
  region->used = alive;
}

static void make_room(Region* region) {
  if (region->used < region->capacity) return;
  remove_dead(region);
  if (region->used < region->capacity / 2) return;
  region->capacity = region->capacity == 0 ? FIRST_MEMBERS : 2 * region->capacity;
  region->members = VG_(realloc)("tare.region.members", region->members,
                                 region->capacity * sizeof *region->members);
}

static Bool lies_in_map(const Birth* birth) {
  return birth->address != 0 && has_map_entry(birth->address) && has_map_entry(birth->size) &&
         has_map_entry(birth->address + birth->size);
}

void regions_allocate(UWord name, const Birth* described) {
  if (name == 0 || name > last_name || !lies_in_map(described)) return;
  Region* const region = region_named(name);
  Birth birth = *described;
  birth.region = region->row.number;
  object_born(&birth);
  const UInt slot = object_at(birth.address);
  if (slot == 0) return;
  make_room(region);
  region->members[region->used++] = (Member){object_in(slot)->id, object_in(slot)->forks, slot};
  reachability_note_region_birth(birth.address, birth.clock);
}

static void end_objects(Region* region, ULong clock) {
  for (UInt i = 0; i < region->used; ++i)
    if (is_alive(&region->members[i])) object_ended_by_region(region->members[i].slot, clock);
  region->used = 0;
}

static void destroy(Region* region, ULong clock);

static void clear(Region* region, ULong clock) {
  while (region->first_child != NULL) {
    Region* innermost = region->first_child;
    while (innermost->first_child != NULL) innermost = innermost->first_child;
    destroy(innermost, clock);
  }
  end_objects(region, clock);
}

static void destroy(Region* region, ULong clock) {
  clear(region, clock);
  take_out(region);
  record(region, process_count.allocated_bytes);
  VG_(HT_remove)(regions, region->name);
  VG_(free)(region->members);
  VG_(free)(region);
}

void regions_clear(UWord name, ULong clock) {
  Region* const region = VG_(HT_lookup)(regions, name);
  if (region == NULL) return;
  if (region->row.number != 0) ++region->row.clears;
  clear(region, clock);
}

void regions_destroy(UWord name, ULong clock) {
  Region* const region = VG_(HT_lookup)(regions, name);
  if (region != NULL) destroy(region, clock);
}

void regions_initialise(void) {
  regions = VG_(HT_construct)("tare.regions");
  own_memory_initialise();
}

void regions_finish(void) {
  if (!regions_were_seen) return;
  VG_(HT_ResetIter)(regions);
  for (Region* region; (region = VG_(HT_Next)(regions)) != NULL;) record(region, 0);
}

void regions_start_child(void) {
  regions_so_far = 0;
  if (!regions_were_seen) return;
  VG_(HT_ResetIter)(regions);
  for (Region* region; (region = VG_(HT_Next)(regions)) != NULL;)
    region->row = (RegionRow){.number = 0};
}
