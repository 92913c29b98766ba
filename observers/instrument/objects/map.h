// SPDX-License-Identifier: GPL-2.0-or-later
// Which object lies at an address, when it was used, and how far.
//
// A flat map with a number of 4 bytes for each 8 bytes of the program's addresses says which slot
// an object has; 0 is none. Slots are used again at once, the last freed first, so that they stay
// few and near one another. Where uses are noted the whole object is in the map, and translated
// code finds the slot of any address in it without a call; else its first 8 bytes only.

#ifndef TARE_INSTRUMENT_OBJECTS_MAP_H
#define TARE_INSTRUMENT_OBJECTS_MAP_H

#include "platform/addresses.h"

enum { SLOT_BITS = 31 };

#define NEVER_IN_TIME (~(ULong)0)

// Times on the clock of instructions.
typedef struct {
  ULong first;  // 0: not used yet
  ULong last;
  ULong stretch;  // objects/teardown.h: since when it has not been left alone
  ULong before;   // the last use before that; 0: none
  Addr end;       // of the furthest access; 0: not used yet
  ULong unused[3];
} Use;

typedef struct {
  Addr address;  // of a slot that is free: the next such slot
  ULong size;
  ULong id;  // from 1 in the order of birth in this process; 0 where births are not recorded
  ULong unreachable_clock;  // 0: not found to be so
  ULong unreachable_bytes;
  ULong kept;  // bytes that a realloc kept of those that had been touched
  UInt forks;  // before its birth
  UInt mark;   // the last search that reached it
} Object;

// `whole`: whether the map holds whole objects, or their beginnings only. Ends the process where
// addresses cannot be reserved.
void map_initialise(Bool whole);

// The object of `size` bytes at `address` is the one in `slot`, or none (0).
void map_fill(Addr address, SizeT size, UInt slot);

static inline Bool has_map_entry(Addr address) { return (ULong)address >> ADDRESS_BITS == 0; }
static inline UInt* map_entry(Addr address) { return (UInt*)OBJECT_MAP + (address >> 3); }
static inline Object* object_in(UInt slot) { return (Object*)OBJECT_SLOTS + slot; }
static inline Use* use_of(UInt slot) { return (Use*)OBJECT_USES + slot; }

// The slot of the object that begins at `address`, or 0.
UInt object_at(Addr address);

// The program, or the kernel for it, uses the `size` bytes at `address`.
static inline void object_used(Addr address, SizeT size, ULong clock) {
  if (!has_map_entry(address)) return;
  Use* const use = use_of(*map_entry(address));
  use->stretch = use->before = use->last = clock;
  if (use->end == 0) use->first = clock;
  if (use->end < address + size) use->end = address + size;
}

// How many bytes there are from the beginning of the object in `slot` to the end of the furthest
// access, at most all of it.
static inline SizeT touched_bytes(UInt slot) {
  const Object* const object = object_in(slot);
  const Addr end = use_of(slot)->end;
  SizeT touched = end > object->address ? end - object->address : 0;
  if (touched < object->kept) touched = object->kept;
  return touched < object->size ? touched : object->size;
}

#endif
