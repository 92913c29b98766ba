// SPDX-License-Identifier: GPL-2.0-or-later
#include "returns.h"

enum { RECENT = 1 << 10 };

static VgHashTable* places;
static Addr recent[RECENT];  // a look at these is all that most operations cost

void returns_initialise(void) { places = VG_(HT_construct)("tare.returns"); }

Bool may_be_returned_to(Addr address) { return VG_(HT_lookup)(places, address) != NULL; }

void returns_add(Addr address) {
  Addr* const latest = &recent[address % RECENT];
  if (*latest == address) return;
  *latest = address;
  if (may_be_returned_to(address)) return;
  VgHashNode* const place = VG_(calloc)("tare.return", 1, sizeof *place);
  place->key = address;
  VG_(HT_add_node)(places, place);
  // Not the block that runs: that is one of the operation.
  VG_(discard_translations)(address, 1, "tare: an operation returns here");
}
