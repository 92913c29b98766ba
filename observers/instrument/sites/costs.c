// SPDX-License-Identifier: GPL-2.0-or-later
#include "costs.h"

#include "output/files.h"
#include "output/table.h"
#include "site_files.h"

// What comes beyond is in the counts of all operations alone.
enum { MOST_COSTS = 1 << 20 };

typedef struct _Cost {
  struct _Cost* next;
  UWord key;  // site and operation
  ULong calls;
  ULong instructions;
  ULong bytes;
} Cost;

Bool costs_were_asked;
static VgHashTable* costs;
static HChar path[PATH_BYTES];

void costs_begin(const HChar* base) {
  costs_were_asked = True;
  if (costs != NULL) VG_(HT_destruct)(costs, VG_(free));
  costs = VG_(HT_construct)("tare.costs");
  VG_(snprintf)(path, sizeof path, "%s.costs", base);
  site_files_begin(base);
}

static Cost* cost_of(UInt site, Operation operation) {
  const UWord key = (UWord)site * OP_COUNT + operation;
  Cost* cost = VG_(HT_lookup)(costs, key);
  if (cost != NULL || VG_(HT_count_nodes)(costs) >= MOST_COSTS) return cost;
  cost = VG_(calloc)("tare.cost", 1, sizeof *cost);
  cost->key = key;
  VG_(HT_add_node)(costs, cost);
  return cost;
}

void costs_count_call(UInt site, Operation operation, ULong instructions) {
  Cost* const cost = cost_of(site, operation);
  if (cost == NULL) return;
  ++cost->calls;
  cost->instructions += instructions;
}

void costs_count_bytes(UInt site, Operation operation, ULong bytes) {
  Cost* const cost = cost_of(site, operation);
  if (cost != NULL) cost->bytes += bytes;
}

void costs_write(void) {
  Table* const table =
      table_create_for_now(path, "costs", "site operation calls instructions bytes");
  VG_(HT_ResetIter)(costs);
  for (const Cost* cost; (cost = VG_(HT_Next)(costs)) != NULL;) {
    const ULong row[] = {cost->key / OP_COUNT, cost->key % OP_COUNT, cost->calls,
                         cost->instructions, cost->bytes};
    table_add(table, row);
  }
  table_close(table);
  site_files_flush();
}
