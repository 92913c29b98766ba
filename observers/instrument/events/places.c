// SPDX-License-Identifier: GPL-2.0-or-later
#include "places.h"

#include "description.h"
#include "guest/symbols.h"

typedef struct _Place {
  struct _Place* next;
  UWord address;
  XArray* events;  // of UInt, their numbers
} Place;

static VgHashTable* places;

static void add_place(Addr address, UInt event) {
  Place* place = VG_(HT_lookup)(places, address);
  if (place == NULL) {
    place = VG_(calloc)("tare.event place", 1, sizeof *place);
    place->address = address;
    place->events = VG_(newXA)(VG_(malloc), "tare.event place", VG_(free), sizeof(UInt));
    VG_(HT_add_node)(places, place);
  }
  for (Word i = 0; i < VG_(sizeXA)(place->events); ++i)
    if (*(const UInt*)VG_(indexXA)(place->events, i) == event) return;  // another of its names
  VG_(addToXA)(place->events, &event);
}

// Objects come and go, and what lies at an address in the process stays wanted.
static void add_fixed_places(void) {
  for (UInt i = 0; i < events_described(); ++i) {
    const Event* const event = event_of(i);
    if (event->object == NULL && event->symbol == NULL) add_place(event->offset, i);
  }
}

static Bool is_in(const Event* event, const DebugInfo* info) {
  if (event->object == NULL) return True;
  const HChar* const file = VG_(DebugInfo_get_filename)(info);
  if (file == NULL) return False;
  const SizeT length = VG_(strlen)(file), wanted = VG_(strlen)(event->object);
  return length >= wanted && VG_(strcmp)(file + length - wanted, event->object) == 0;
}

static void add_symbol(const DebugInfo* info, const HChar* symbol, Addr address, Bool is_resolver,
                       void* unused) {
  (void)is_resolver, (void)unused;
  for (UInt i = 0; i < events_described(); ++i) {
    const Event* const event = event_of(i);
    if (event->symbol != NULL && VG_(strcmp)(event->symbol, symbol) == 0 && is_in(event, info))
      add_place(address + event->offset, i);
  }
}

void places_follow_loading(const DebugInfo* info) {
  add_fixed_places();
  for (UInt i = 0; i < events_described(); ++i) {
    const Event* const event = event_of(i);
    if (event->symbol == NULL && event->object != NULL && is_in(event, info))
      add_place(event->offset + (Addr)VG_(DebugInfo_get_text_bias)(info), i);
  }
  symbols_visit(info, add_symbol, NULL);
}

void places_forget(Addr start, SizeT bytes) {
  UInt count;
  VgHashNode** const nodes = VG_(HT_to_array)(places, &count);
  for (UInt i = 0; i < count; ++i) {
    if (nodes[i]->key - start >= bytes) continue;
    Place* const place = VG_(HT_remove)(places, nodes[i]->key);
    VG_(deleteXA)(place->events);
    VG_(free)(place);
  }
  if (nodes != NULL) VG_(free)(nodes);
}

void places_initialise(void) {
  places = VG_(HT_construct)("tare.event places");
  add_fixed_places();
}

XArray* events_at(Addr instruction) {
  const Place* const place = VG_(HT_lookup)(places, instruction);
  return place == NULL ? NULL : place->events;
}
