// SPDX-License-Identifier: GPL-2.0-or-later
#include "regions.h"

#include "client/requests.h"
#include "objects.h"
#include "reachability.h"
#include "threads.h"
#include "trace.h"

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

typedef struct _Own {
  struct _Own* next;
  UWord address;
  SizeT size;
} Own;

enum { FIRST_MEMBERS = 8 };

Bool regions_were_told;

static VgHashTable* regions;
static VgHashTable* own_memory;
static UInt last_name;
static UInt regions_so_far;  // of this process's recording

// ---- regions ----

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

static void write(Region* region, ULong destroyed_bytes) {
  if (region->row.number == 0) return;
  region->row.parent = region->parent != NULL ? region->parent->row.number : 0;
  region->row.destroyed_bytes = destroyed_bytes;
  trace_region(&region->row);
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

static UInt create(UWord parent, const Moment* now) {
  regions_were_told = True;
  Region* const region = region_named(++last_name);
  region->row.site = now->site;
  region->row.created_bytes = process_count.allocated_bytes;
  if (parent != 0 && parent < last_name) put_inside(region, region_named(parent));
  write(region, 0);
  return last_name;
}

// ---- their objects ----

static Bool is_alive(const Member* member) {
  const Object* const object = object_in(member->slot);
  return object->id == member->id && object->forks == member->forks;
}

static void forget_the_dead(Region* region) {
  UInt kept = 0;
  for (UInt i = 0; i < region->used; ++i)
    if (is_alive(&region->members[i])) region->members[kept++] = region->members[i];
  region->used = kept;
}

static void make_room(Region* region) {
  if (region->used < region->capacity) return;
  forget_the_dead(region);
  if (region->used < region->capacity / 2) return;
  region->capacity = region->capacity == 0 ? FIRST_MEMBERS : 2 * region->capacity;
  region->members = VG_(realloc)("tare.region.members", region->members,
                                 region->capacity * sizeof *region->members);
}

static Bool lies_in_map(const Birth* birth) {
  return birth->address != 0 && has_map_entry(birth->address) && has_map_entry(birth->size) &&
         has_map_entry(birth->address + birth->size);
}

static void allocate(UWord name, const Birth* told) {
  if (name == 0 || name > last_name || !lies_in_map(told)) return;
  Region* const region = region_named(name);
  Birth birth = *told;
  birth.region = region->row.number;
  object_born(&birth);
  const UInt slot = object_at(birth.address);
  if (slot == 0) return;
  make_room(region);
  region->members[region->used++] = (Member){object_in(slot)->id, object_in(slot)->forks, slot};
  reachability_search_if_due(birth.clock);
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
  write(region, process_count.allocated_bytes);
  VG_(HT_remove)(regions, region->name);
  VG_(free)(region->members);
  VG_(free)(region);
}

// ---- what the library has for itself ----

void regions_add_own(Addr address, SizeT size) {
  Own* own = VG_(HT_lookup)(own_memory, address);
  if (own == NULL) {
    own = VG_(malloc)("tare.own", sizeof *own);
    own->address = address;
    VG_(HT_add_node)(own_memory, own);
  }
  own->size = size;
}

Bool regions_take_own_there(Addr address) {
  Own* const own = VG_(HT_remove)(own_memory, address);
  VG_(free)(own);
  return own != NULL;
}

void regions_visit_own(void (*visit)(Addr start, Addr end)) {
  if (!regions_were_told) return;
  VG_(HT_ResetIter)(own_memory);
  for (const Own* own; (own = VG_(HT_Next)(own_memory)) != NULL;)
    visit(own->address, own->address + own->size);
}

// ---- what the program asks ----

static Bool answer(ThreadId thread, UWord* request, UWord* result) {
  const UWord* const told = request + 1;
  if (!trace_is_on() || request[0] < REQUEST_CREATE || request[0] >= REQUESTS_END) return False;
  *result = 0;
  const ULong clock = threads_clock();
  Region* region;
  switch (request[0]) {
    case REQUEST_CREATE: {
      const Moment now = threads_moment(thread, told[1]);
      *result = create(told[0], &now);
      break;
    }
    case REQUEST_ALLOCATE: {
      const Moment now = threads_moment(thread, told[4]);
      const Birth birth = {.address = told[1],
                           .size = told[2],
                           .usable_size = told[3],
                           .operation = BORN_IN_REGION,
                           .clock = clock,
                           .thread = now.thread,
                           .site = now.site};
      allocate(told[0], &birth);
      break;
    }
    case REQUEST_FREE:
      if (told[1] != 0) object_died(told[1], clock);
      break;
    case REQUEST_CLEAR:
      region = VG_(HT_lookup)(regions, told[0]);
      if (region == NULL) break;
      if (region->row.number != 0) ++region->row.clears;
      clear(region, clock);
      break;
    case REQUEST_DESTROY:
      region = VG_(HT_lookup)(regions, told[0]);
      if (region != NULL) destroy(region, clock);
      break;
    case REQUEST_BEGIN_OWN:
      regions_were_told = True;
      threads_begin_own(thread);
      break;
    case REQUEST_END_OWN:
      threads_end_own(thread);
      break;
  }
  return True;
}

void regions_initialise(void) {
  regions = VG_(HT_construct)("tare.regions");
  own_memory = VG_(HT_construct)("tare.own");
  VG_(needs_client_requests)(answer);
}

void regions_finish(void) {
  if (!regions_were_told) return;
  VG_(HT_ResetIter)(regions);
  for (Region* region; (region = VG_(HT_Next)(regions)) != NULL;) write(region, 0);
}

void regions_start_child(void) {
  regions_so_far = 0;
  if (!regions_were_told) return;
  VG_(HT_ResetIter)(regions);
  for (Region* region; (region = VG_(HT_Next)(regions)) != NULL;)
    region->row = (RegionRow){.number = 0};
}
