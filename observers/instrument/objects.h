// SPDX-License-Identifier: GPL-2.0-or-later
// The objects that are alive, by address, their uses, and what follows from births and deaths.
//
// A flat map with a number of 4 bytes for each 8 bytes of the program's addresses says which slot
// an object has; 0 is none. Slots are used again at once, the last freed first, so that they stay
// few and near one another. Where uses are noted the whole object is in the map, and translated
// code finds the slot of any address in it without a call; else its first 8 bytes only.

#ifndef TARE_INSTRUMENT_OBJECTS_H
#define TARE_INSTRUMENT_OBJECTS_H

#include "core.h"
#include "counts.h"

// Addresses above the core's own bound (widen_addresses.py), which no mapping of the program takes.
#define OBJECT_MAP ((Addr)0x400000000000)
#define EMPTY_MAP ((Addr)0x500000000000)  // for code whose uses do not count: the manager's
#define OBJECT_USES ((Addr)0x600000000000)
#define OBJECT_SLOTS ((Addr)0x611000000000)
// The program's addresses are below 2^45. One above makes the map's reader fault, as the access to
// it will, or find some slot; there is memory for the use of each.
enum { ADDRESS_BITS = 45, SLOT_BITS = 31 };

// Times on the clock of instructions.
typedef struct {
  ULong first;  // 0: not used yet
  ULong last;
} Use;

typedef struct {
  Addr address;  // of a slot that is free: the next such slot
  ULong size;
  ULong id;  // from 1 in the order of birth in this process; 0 where births are not recorded
  ULong unreachable_clock;  // 0: not found to be so
  ULong unreachable_bytes;
  UInt forks;  // before its birth
  UInt mark;   // the last search that reached it
} Object;

enum { BORN_IN_REGION = OP_NEW + 1 };

typedef struct {
  Addr address;
  SizeT size;
  SizeT usable_size;  // 0: not known
  SizeT alignment;    // asked for; 0: none
  UInt operation;     // one that gives objects, or BORN_IN_REGION
  ULong clock;
  UInt thread;
  UInt site;
  UInt region;  // of the recording; 0: none
} Birth;

// `whole`: whether the map holds whole objects, or their beginnings only. Ends the process where
// addresses cannot be reserved.
void objects_initialise(Bool whole);

// In the child of a fork: what is alive belongs to the parent's count.
void objects_inherit(void);

static inline Bool has_map_entry(Addr address) { return (ULong)address >> ADDRESS_BITS == 0; }
static inline UInt* map_entry(Addr address) { return (UInt*)OBJECT_MAP + (address >> 3); }
static inline Object* object_in(UInt slot) { return (Object*)OBJECT_SLOTS + slot; }
static inline Use* use_of(UInt slot) { return (Use*)OBJECT_USES + slot; }

// The slot of the object that begins at `address`, or 0.
UInt object_at(Addr address);

// Born before the last fork, so not of this process's count.
Bool object_is_inherited(const Object* object);

// Slots in use lie below this.
UInt objects_end(void);

void object_born(const Birth* birth);

// False when no object of that address is known.
Bool object_died(Addr address, ULong clock);

// The region of the object in `slot` has gone, or been cleared.
void object_ended_by_region(UInt slot, ULong clock);

// The object in `slot` (0: unknown) has become the one that `birth` describes: for the counts it
// stays the same object, in a trace it ends and another begins.
void object_resized(UInt slot, const Birth* birth);

// The program, or the kernel for it, uses what lies at `address`.
static inline void object_used(Addr address, ULong clock) {
  if (!has_map_entry(address)) return;
  Use* const use = use_of(*map_entry(address));
  use->last = clock;
  if (use->first == 0) use->first = clock;
}

#endif
