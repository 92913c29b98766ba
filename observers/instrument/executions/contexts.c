// SPDX-License-Identifier: GPL-2.0-or-later
#include "contexts.h"

#include "manager/counts.h"

enum {
  MOST_CONTEXTS = 64,
  CROWDED = 0,  // the context that stands for those beyond the most
};

Bool executions_were_asked;
static Context contexts[MOST_CONTEXTS];
static UInt used;

// VG_(am_shadow_alloc) gives an address or NULL, in newer versions a SysRes.
static inline void* shadow_address(void* address) { return address; }
static inline void* shadow_result(SysRes result) {
  return sr_isError(result) ? NULL : (void*)sr_Res(result);
}

static Addr add_context(ULong phases, UInt operation) {
  const SizeT bytes = MOST_STRETCHES * sizeof(ULong);
  ULong* const counters = _Generic(VG_(am_shadow_alloc)(bytes),
      SysRes: shadow_result,
      void*: shadow_address)(VG_(am_shadow_alloc)(bytes));
  if (counters == NULL) {
    VG_(umsg)("no memory to count how often instructions are executed\n");
    VG_(exit)(1);
  }
  contexts[used++] = (Context){phases, operation, counters};
  return (Addr)counters;
}

Addr executions_counters(ULong phases, UInt operation) {
  for (UInt i = CROWDED + 1; i < used; ++i)
    if (contexts[i].phases == phases && contexts[i].operation == operation)
      return (Addr)contexts[i].counters;
  if (used == MOST_CONTEXTS) return (Addr)contexts[CROWDED].counters;
  return add_context(phases, operation);
}

void contexts_begin(void) {
  executions_were_asked = True;
  add_context(0, OP_COUNT);
}

UInt contexts_used(void) { return used; }

const Context* context_of(UInt number) { return &contexts[number]; }

void contexts_reset(UInt stretches) {
  for (UInt i = 0; i < used; ++i) VG_(memset)(contexts[i].counters, 0, stretches * sizeof(ULong));
}
