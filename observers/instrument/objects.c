// SPDX-License-Identifier: GPL-2.0-or-later
#include "objects.h"

#include "trace.h"

// From LARGE_BYTES of the map on, an object's part of it is given back to the kernel with it. From
// HUGE_BYTES on it is one block of memory, mapped again and again.
enum { LARGE_BYTES = 1 << 20, HUGE_BYTES = 8 << 20, BLOCK_BYTES = 2 << 20, MOST_BLOCKS = 4096 };

static Bool maps_whole_objects;
static UInt slots_used = 1;  // slot 0 belongs to no object
static UInt free_slot;       // 0: none
static UInt forks_so_far;

static Bool map(Addr start, SizeT bytes, UInt flags, Int file) {
  const SysRes result = VG_(am_do_mmap_NO_NOTIFY)(start, bytes, VKI_PROT_READ | VKI_PROT_WRITE,
                                                  flags | VKI_MAP_NORESERVE, (UInt)file, 0);
  return !sr_isError(result) && sr_Res(result) == start;
}

static void reserve(Addr start, SizeT bytes, const HChar* what) {
  if (map(start, bytes, VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | MAP_NEVER_REPLACING, -1)) return;
  VG_(umsg)
  ("no addresses for %s: is the size of address spaces limited (ulimit -v), or does the kernel "
   "refuse to overcommit (vm.overcommit_memory = 2)?\n",
   what);
  VG_(exit)(1);
}

void objects_initialise(Bool whole) {
  maps_whole_objects = whole;
  const SizeT map_bytes = (SizeT)1 << (ADDRESS_BITS - 1);
  reserve(OBJECT_MAP, map_bytes, "the object map");
  reserve(EMPTY_MAP, map_bytes, "the empty map");
  reserve(OBJECT_USES, sizeof(Use) << 32, "the uses of objects");
  reserve(OBJECT_SLOTS, sizeof(Object) << SLOT_BITS, "the objects");
  use_of(0)->first = 1;  // so that code for a first use passes over what is no object
}

void objects_inherit(void) { ++forks_so_far; }

Bool object_is_inherited(const Object* object) { return object->forks != forks_so_far; }

UInt objects_end(void) { return slots_used; }

UInt object_at(Addr address) {
  if (!has_map_entry(address)) return 0;
  const UInt slot = *map_entry(address);
  return slot != 0 && object_in(slot)->address == address ? slot : 0;
}

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

static void fill(UInt* entry, const UInt* end, UInt slot) {
  while (entry < end) *entry++ = slot;
}

static void empty_pages(Addr start, Addr end) {
  tl_assert(map(start, end - start, VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS | VKI_MAP_FIXED, -1));
}

// False when the kernel does not give memory that can be mapped several times.
static Bool repeat_block(Addr start, Addr end, UInt slot) {
  SizeT block_bytes = BLOCK_BYTES;
  while ((end - start) / block_bytes > MOST_BLOCKS) block_bytes *= 2;
  const SysRes made = VG_(do_syscall)(__NR_memfd_create, (UWord) "tare", 0, 0, 0, 0, 0, 0, 0);
  if (sr_isError(made)) return False;
  const Int file = (Int)sr_Res(made);
  Bool done =
      !sr_isError(VG_(do_syscall)(__NR_ftruncate, (UWord)file, block_bytes, 0, 0, 0, 0, 0, 0));
  for (Addr at = start; done && at < end; at += block_bytes) {
    const SizeT bytes = end - at < block_bytes ? end - at : block_bytes;
    done = map(at, bytes, VKI_MAP_SHARED | VKI_MAP_FIXED, file);
    if (done && at == start) fill((UInt*)start, (const UInt*)(start + bytes), slot);
  }
  VG_(close)(file);
  if (!done) empty_pages(start, end);
  return done;
}

static void fill_map(Addr address, SizeT size, UInt slot) {
  UInt* const entry = map_entry(address);
  if (!maps_whole_objects || size <= 8) {
    *entry = slot;
    return;
  }
  UInt* const behind = entry + (size + 7) / 8;
  const SizeT bytes = (SizeT)(behind - entry) * sizeof *entry;
  const Addr start = VG_PGROUNDUP((Addr)entry);
  const Addr end = VG_PGROUNDDN((Addr)behind);
  const Bool in_pages =
      slot == 0 ? bytes >= LARGE_BYTES : bytes >= HUGE_BYTES && repeat_block(start, end, slot);
  if (!in_pages) return fill(entry, behind, slot);
  if (slot == 0) empty_pages(start, end);
  fill(entry, (const UInt*)start, slot);
  fill((UInt*)end, behind, slot);
}

static void note_peak(void) {
  ProcessCount* const count = &process_count;
  if (count->live_objects > count->max_live_objects) count->max_live_objects = count->live_objects;
  if (count->live_bytes > count->max_live_bytes) count->max_live_bytes = count->live_bytes;
}

// Takes the object out of the figures of what is alive; False for one from before a fork.
static Bool end_life(const Object* object) {
  if (object_is_inherited(object)) return False;
  --process_count.live_objects;
  process_count.live_bytes -= object->size;
  return True;
}

static void remove_object(UInt slot, ULong clock, Freeing freeing) {
  Object* const object = object_in(slot);
  if (object->id != 0 && !object_is_inherited(object))
    trace_death(object, use_of(slot), clock, freeing);
  // The end of a region can be told late: its memory may be another's by then.
  if (*map_entry(object->address) == slot) fill_map(object->address, object->size, 0);
  give_slot(slot);
}

static void place(UInt slot, const Birth* birth) {
  Object* const object = object_in(slot);
  object->address = birth->address;
  object->size = birth->size;
  object->forks = forks_so_far;
  if (trace_is_on()) {
    object->unreachable_clock = 0;
    object->unreachable_bytes = 0;
    object->mark = 0;
    *use_of(slot) = (Use){0, 0};
  }
  fill_map(birth->address, birth->size, slot);
}

// A death that went unseen: a free by way of an interface which is not one of the family.
static void end_what_is_at(Addr address, ULong clock) {
  const UInt slot = object_at(address);
  if (slot == 0) return;
  end_life(object_in(slot));
  remove_object(slot, clock, BY_FREE);
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
  object_in(slot)->id = trace_birth(birth, 0);
}

Bool object_died(Addr address, ULong clock) {
  const UInt slot = object_at(address);
  if (slot == 0) {
    ++process_count.unknown_frees;
    return False;
  }
  if (end_life(object_in(slot)))
    ++process_count.freed_objects;
  else
    ++process_count.inherited_frees;
  remove_object(slot, clock, BY_FREE);
  return True;
}

void object_ended_by_region(UInt slot, ULong clock) {
  if (end_life(object_in(slot))) ++process_count.freed_objects;
  remove_object(slot, clock, BY_REGION);
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
  if (object->id != 0) object_used(from, birth->clock);  // what it holds is kept
  remove_object(slot, birth->clock, BY_REALLOC);
  if (birth->address != from) end_what_is_at(birth->address, birth->clock);
  note_peak();
  const UInt next = take_slot();
  place(next, birth);
  object_in(next)->id = trace_birth(birth, before_id);
}
