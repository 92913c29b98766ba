// SPDX-License-Identifier: GPL-2.0-or-later
#include "own_memory.h"

typedef struct _Own {
  struct _Own* next;
  UWord address;
  SizeT size;
} Own;

Bool regions_were_seen;

static VgHashTable* own_memory;

void own_memory_initialise(void) { own_memory = VG_(HT_construct)("tare.own"); }

void own_memory_add(Addr address, SizeT size) {
  Own* own = VG_(HT_lookup)(own_memory, address);
  if (own == NULL) {
    own = VG_(malloc)("tare.own", sizeof *own);
    own->address = address;
    VG_(HT_add_node)(own_memory, own);
  }
  own->size = size;
}

Bool own_memory_remove_there(Addr address) {
  Own* const own = VG_(HT_remove)(own_memory, address);
  VG_(free)(own);
  return own != NULL;
}

void own_memory_visit(void (*visit)(Addr start, Addr end)) {
  if (!regions_were_seen) return;
  VG_(HT_ResetIter)(own_memory);
  for (const Own* own; (own = VG_(HT_Next)(own_memory)) != NULL;)
    visit(own->address, own->address + own->size);
}
