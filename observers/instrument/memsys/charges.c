// SPDX-License-Identifier: GPL-2.0-or-later
#include "charges.h"

#include "memory.h"

enum { FIRST_TABLE = 1 << 10, MOST_CONTEXTS = 1 << 16 };

static SizeT events_bytes;
static Charge** charges;  // a hash table
static UInt used;
static UInt capacity;

void charges_initialise(UInt models) {
  events_bytes = sizeof(Events) + models * sizeof(Counts);
  occurrences_initialise(models * COUNTS);
}

Events* events_new(void) { return memory_new(events_bytes); }

void events_copy(Events* to, const Events* from) { VG_(memcpy)(to, from, events_bytes); }

void events_clear(Events* events) { VG_(memset)(events, 0, events_bytes); }

void events_add_difference(Events* sum, const Events* now, const Events* then) {
  ULong* const to = (ULong*)sum;
  for (UInt i = 0; i < events_bytes / sizeof(ULong); ++i)
    to[i] += ((const ULong*)now)[i] - ((const ULong*)then)[i];
}

static Charge** place_of(UInt operation, ULong phase, Addr caller) {
  const ULong key = caller * 0x9e3779b97f4a7c15ULL ^ (phase << 8 | operation);
  UInt place = (UInt)(key * 0x9e3779b97f4a7c15ULL >> 40) & (capacity - 1);
  for (;; place = (place + 1) & (capacity - 1)) {
    const Charge* const charge = charges[place];
    if (charge == NULL ||
        (charge->operation == operation && charge->phase == phase && charge->caller == caller))
      return &charges[place];
  }
}

static void grow(void) {
  Charge** const old = charges;
  const UInt old_capacity = capacity;
  capacity = old_capacity == 0 ? FIRST_TABLE : 2 * old_capacity;
  charges = memory_new(capacity * sizeof *charges);
  for (UInt i = 0; i < old_capacity; ++i)
    if (old[i] != NULL) *place_of(old[i]->operation, old[i]->phase, old[i]->caller) = old[i];
}

Charge* charge_of(UInt operation, ULong phase, Addr caller) {
  if (used >= capacity / 2) grow();
  Charge** place = place_of(operation, phase, caller);
  if (*place == NULL && used >= MOST_CONTEXTS && caller != 0) return charge_of(operation, phase, 0);
  if (*place == NULL) {
    Charge* const charge = memory_new(sizeof *charge);
    charge->operation = operation;
    charge->phase = phase;
    charge->caller = caller;
    charge->events = events_new();
    *place = charge;
    ++used;
  }
  return *place;
}

Charge* charges_next(UInt* place) {
  while (*place < capacity)
    if (charges[(*place)++] != NULL) return charges[*place - 1];
  return NULL;
}

void charges_reset(void) {
  UInt place = 0;
  for (Charge* each; (each = charges_next(&place)) != NULL;) {
    each->calls = 0;
    events_clear(each->events);
    occurrences_clear(&each->occurrences);
  }
}
