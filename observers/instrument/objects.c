// SPDX-License-Identifier: GPL-2.0-or-later
// A hash table with open addressing and linear probing. Removal shifts the entries behind it back,
// so that there are no tombstones: programs that allocate and free without end keep it short.

#include "objects.h"

#include "counts.h"

enum { SIZE_BITS = 48, FIRST_CAPACITY_BITS = 12 };

typedef struct {
  Addr address;            // 0: empty
  ULong size : SIZE_BITS;  // of a request; larger ones fail
  ULong forks : 16;        // before its birth
} Object;

static Object* table;
static UInt capacity_bits;
static UWord used;
static UShort forks_so_far;

static inline UWord mask(void) { return ((UWord)1 << capacity_bits) - 1; }

static inline UWord home(Addr address) {
  return (address * 0x9e3779b97f4a7c15ULL) >> (64 - capacity_bits);
}

static Object* table_of(UInt bits) {
  return VG_(calloc)("tare.objects", (SizeT)1 << bits, sizeof(Object));
}

void objects_initialise(void) {
  capacity_bits = FIRST_CAPACITY_BITS;
  table = table_of(capacity_bits);
}

void objects_inherit(void) { ++forks_so_far; }

// The entry of `address`, or the empty one where it belongs.
static inline Object* find(Addr address) {
  UWord index = home(address);
  while (table[index].address != address && table[index].address != 0) index = (index + 1) & mask();
  return &table[index];
}

static void grow(void) {
  Object* const old = table;
  const UWord old_capacity = mask() + 1;
  table = table_of(++capacity_bits);
  for (UWord i = 0; i < old_capacity; ++i)
    if (old[i].address != 0) *find(old[i].address) = old[i];
  VG_(free)(old);
}

static void remove_entry(Object* entry) {
  UWord hole = (UWord)(entry - table);
  for (UWord next = (hole + 1) & mask(); table[next].address != 0; next = (next + 1) & mask()) {
    const UWord distance_to_home = (next - home(table[next].address)) & mask();
    if (distance_to_home >= ((next - hole) & mask())) {
      table[hole] = table[next];
      hole = next;
    }
  }
  table[hole].address = 0;
  --used;
}

// `entry` is what find() gave for the address.
static inline void put(Object* entry, Addr address, SizeT size) {
  if (entry->address == 0) {
    if (++used > mask() / 2) {
      grow();
      entry = find(address);
    }
    entry->address = address;
  }
  entry->size = size;
  entry->forks = forks_so_far;
}

static void note_peak(void) {
  ProcessCount* const count = &process_count;
  if (count->live_objects > count->max_live_objects) count->max_live_objects = count->live_objects;
  if (count->live_bytes > count->max_live_bytes) count->max_live_bytes = count->live_bytes;
}

// Takes the object out of the figures of what is alive; False for one from before a fork.
static Bool end_life(const Object* entry) {
  if (entry->forks != forks_so_far) return False;
  --process_count.live_objects;
  process_count.live_bytes -= entry->size;
  return True;
}

void object_born(Addr address, SizeT size) {
  Object* const entry = find(address);
  // A death that went unseen: a free by way of an interface which is not one of the family.
  if (entry->address != 0) end_life(entry);
  put(entry, address, size);
  ++process_count.objects;
  process_count.allocated_bytes += size;
  ++process_count.live_objects;
  process_count.live_bytes += size;
  note_peak();
}

Bool object_died(Addr address) {
  Object* const entry = find(address);
  if (entry->address == 0) {
    ++process_count.unknown_frees;
    return False;
  }
  if (end_life(entry))
    ++process_count.freed_objects;
  else
    ++process_count.inherited_frees;
  remove_entry(entry);
  return True;
}

void object_resized(Addr from, Addr to, SizeT size) {
  Object* const entry = find(from);
  if (entry->address == 0) {
    ++process_count.unknown_frees;
    object_born(to, size);
    return;
  }
  const SizeT before = entry->size;
  if (entry->forks == forks_so_far) {
    process_count.live_bytes += size - before;
  } else {
    ++process_count.live_objects;  // from now on its life is this process's
    process_count.live_bytes += size;
  }
  if (size > before) process_count.allocated_bytes += size - before;
  ++process_count.resized_objects;
  if (to != from) {
    remove_entry(entry);
    const Object* const earlier = find(to);
    if (earlier->address != 0) end_life(earlier);
  }
  put(find(to), to, size);
  note_peak();
}
