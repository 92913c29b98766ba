// SPDX-License-Identifier: GPL-2.0-or-later
#include "tree.h"

#include "site_files.h"

enum { MOST_NODES = 1 << 24, FIRST_BITS = 12 };

typedef struct {
  UInt caller;
  UInt call;
} Node;

typedef struct {
  Addr address;
  const DebugInfo* info;  // of the object there when the code was translated
  UInt frame;             // row in this process's file, from 1; 0: not written
} CallInstruction;

typedef struct _Known {
  struct _Known* next;
  UWord address;
  UInt call;
} Known;

static CallInstruction* calls;
static UInt calls_used, calls_capacity;
static VgHashTable* known_calls;

static Node* nodes;  // from 1
static UInt nodes_used = 1, nodes_capacity;
static UInt* table;  // of nodes, open addressing; 0: empty
static UInt table_bits;
static UInt frames_used;

void tree_initialise(void) {
  known_calls = VG_(HT_construct)("tare.calls");
  table_bits = FIRST_BITS;
  table = VG_(calloc)("tare.nodes", (SizeT)1 << table_bits, sizeof *table);
}

UInt call_number(Addr address) {
  const DebugInfo* const info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
  Known* known = VG_(HT_lookup)(known_calls, address);
  if (known != NULL && calls[known->call].info == info) return known->call;
  if (calls_used == calls_capacity) {
    calls_capacity = calls_capacity == 0 ? 1024 : 2 * calls_capacity;
    calls = VG_(realloc)("tare.calls", calls, calls_capacity * sizeof *calls);
  }
  calls[calls_used] = (CallInstruction){address, info, 0};
  if (known == NULL) {
    known = VG_(malloc)("tare.call", sizeof *known);
    known->address = address;
    VG_(HT_add_node)(known_calls, known);
  }
  known->call = calls_used;
  return calls_used++;
}

static UInt home(UInt caller, UInt call) {
  const ULong key = ((ULong)caller << 32) | call;
  return (UInt)((key * 0x9e3779b97f4a7c15ULL) >> (64 - table_bits));
}

static UInt* place_of(UInt caller, UInt call) {
  const UInt mask = ((UInt)1 << table_bits) - 1;
  UInt index = home(caller, call);
  while (table[index] != 0 &&
         (nodes[table[index]].caller != caller || nodes[table[index]].call != call))
    index = (index + 1) & mask;
  return &table[index];
}

static void grow_table(void) {
  VG_(free)(table);
  ++table_bits;
  table = VG_(calloc)("tare.nodes", (SizeT)1 << table_bits, sizeof *table);
  for (UInt node = 1; node < nodes_used; ++node)
    *place_of(nodes[node].caller, nodes[node].call) = node;
}

UInt tree_child(UInt caller, UInt call) {
  UInt* place = place_of(caller, call);
  if (*place != 0) return *place;
  if (nodes_used == MOST_NODES) return caller;
  if (nodes_used == nodes_capacity || nodes_capacity == 0) {
    nodes_capacity = nodes_capacity == 0 ? 1024 : 2 * nodes_capacity;
    nodes = VG_(realloc)("tare.node", nodes, nodes_capacity * sizeof *nodes);
  }
  const UInt node = nodes_used++;
  nodes[node] = (Node){caller, call};
  *place = node;
  if (nodes_used > (UInt)1 << (table_bits - 1)) grow_table();
  if (calls[call].frame == 0) {
    site_files_add_frame(calls[call].address);
    calls[call].frame = ++frames_used;
  }
  site_files_add_site(caller, calls[call].frame - 1, calls[call].address);
  return node;
}

void tree_start_child(void) {
  nodes_used = 1;
  frames_used = 0;
  VG_(memset)(table, 0, ((SizeT)1 << table_bits) * sizeof *table);
  for (UInt call = 0; call < calls_used; ++call) calls[call].frame = 0;
}
