// SPDX-License-Identifier: GPL-2.0-or-later
#include "chunks.h"

enum { FIRST_UNITS = 1 << 10 };

// A hash table of the addresses of units, and the number of the first chunk of each.
static struct {
  Addr* address;
  UInt* number;
  UInt capacity;
  UInt used;
  UInt end;  // of the numbers
} units;

static UInt slot_of_unit(Addr unit) {
  UInt slot = (UInt)(unit * 0x9e3779b97f4a7c15ULL >> 32) & (units.capacity - 1);
  while (units.number[slot] != 0 && units.address[slot] != unit)
    slot = (slot + 1) & (units.capacity - 1);
  return slot;
}

static void grow_units(void) {
  const Addr* const address = units.address;
  const UInt* const number = units.number;
  const UInt capacity = units.capacity;
  units.capacity = capacity == 0 ? FIRST_UNITS : 2 * capacity;
  units.address = VG_(calloc)("tare.units", units.capacity, sizeof *units.address);
  units.number = VG_(calloc)("tare.units", units.capacity, sizeof *units.number);
  for (UInt i = 0; i < capacity; ++i) {
    if (number[i] == 0) continue;
    const UInt slot = slot_of_unit(address[i]);
    units.address[slot] = address[i];
    units.number[slot] = number[i];
  }
  if (capacity == 0) return;
  VG_(free)((void*)address);
  VG_(free)((void*)number);
}

UInt chunk_number(Addr chunk, const FetchRules* rules) {
  const UInt chunks = rules->unit_bytes / rules->chunk_bytes;
  if (units.used >= units.capacity / 2) grow_units();
  const Addr unit = chunk / rules->unit_bytes;
  const UInt slot = slot_of_unit(unit);
  if (units.number[slot] == 0) {
    units.address[slot] = unit;
    if (units.end == 0) units.end = chunks;  // number 0 is of none
    units.number[slot] = units.end;
    units.end += chunks;
    ++units.used;
  }
  return units.number[slot] + (UInt)(chunk / rules->chunk_bytes % chunks);
}

UInt chunk_numbers(void) { return units.end; }
