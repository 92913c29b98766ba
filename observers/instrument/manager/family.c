// SPDX-License-Identifier: GPL-2.0-or-later
#include "family.h"

#include "platform/guest.h"

#define SIZE SIZE_IN_CPP_NAMES

static const Entry family[] = {
    {"malloc", OP_MALLOC, WANTS_FIRST},
    {"calloc", OP_CALLOC, WANTS_FIRST_X_SECOND},
    {"realloc", OP_REALLOC, RESIZES},
    {"reallocarray", OP_REALLOC, RESIZES_ELEMENTS},
    {"memalign", OP_ALIGNED, WANTS_SECOND},
    {"aligned_alloc", OP_ALIGNED, WANTS_SECOND},
    {"posix_memalign", OP_ALIGNED, WANTS_THIRD},
    {"valloc", OP_ALIGNED, WANTS_FIRST_IN_PAGES},
    {"pvalloc", OP_ALIGNED, WANTS_FIRST_IN_PAGES},
    {"free", OP_FREE, ENDS_FIRST},
    {"cfree", OP_FREE, ENDS_FIRST},
    {"free_sized", OP_FREE, ENDS_FIRST},
    {"free_aligned_sized", OP_FREE, ENDS_FIRST},
    {"malloc_usable_size", OP_OTHER, WANTS_USABLE_SIZE},
    {"malloc_trim", OP_OTHER, WANTS_NOTHING},
    // operator new and new[]: plain, nothrow, aligned, both
    {"_Znw" SIZE, OP_NEW, WANTS_FIRST},
    {"_Zna" SIZE, OP_NEW, WANTS_FIRST},
    {"_Znw" SIZE "RKSt9nothrow_t", OP_NEW, WANTS_FIRST},
    {"_Zna" SIZE "RKSt9nothrow_t", OP_NEW, WANTS_FIRST},
    {"_Znw" SIZE "St11align_val_t", OP_NEW, WANTS_FIRST_ALIGNED},
    {"_Zna" SIZE "St11align_val_t", OP_NEW, WANTS_FIRST_ALIGNED},
    {"_Znw" SIZE "St11align_val_tRKSt9nothrow_t", OP_NEW, WANTS_FIRST_ALIGNED},
    {"_Zna" SIZE "St11align_val_tRKSt9nothrow_t", OP_NEW, WANTS_FIRST_ALIGNED},
    // operator delete and delete[]: plain, sized, nothrow, aligned, and their combinations
    {"_ZdlPv", OP_DELETE, ENDS_FIRST},
    {"_ZdaPv", OP_DELETE, ENDS_FIRST},
    {"_ZdlPv" SIZE, OP_DELETE, ENDS_FIRST},
    {"_ZdaPv" SIZE, OP_DELETE, ENDS_FIRST},
    {"_ZdlPvRKSt9nothrow_t", OP_DELETE, ENDS_FIRST},
    {"_ZdaPvRKSt9nothrow_t", OP_DELETE, ENDS_FIRST},
    {"_ZdlPvSt11align_val_t", OP_DELETE, ENDS_FIRST},
    {"_ZdaPvSt11align_val_t", OP_DELETE, ENDS_FIRST},
    {"_ZdlPv" SIZE "St11align_val_t", OP_DELETE, ENDS_FIRST},
    {"_ZdaPv" SIZE "St11align_val_t", OP_DELETE, ENDS_FIRST},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", OP_DELETE, ENDS_FIRST},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", OP_DELETE, ENDS_FIRST},
    // The probe of ../runner, which every run carries.
    {"tare_probe_start", OP_PROOF, WANTS_NOTHING},
    {"tare_probe_fork", OP_PROOF, WANTS_NOTHING},
};

static const Entry memory_functions[] = {
    {"memset", OP_ZEROING, WORKS_INSIDE},        {"__memset_chk", OP_ZEROING, WORKS_INSIDE},
    {"bzero", OP_ZEROING, WORKS_INSIDE},         {"memcpy", OP_COPYING, WORKS_INSIDE},
    {"__memcpy_chk", OP_COPYING, WORKS_INSIDE},  {"memmove", OP_COPYING, WORKS_INSIDE},
    {"__memmove_chk", OP_COPYING, WORKS_INSIDE}, {"mempcpy", OP_COPYING, WORKS_INSIDE},
};
enum { MEMORY_FUNCTIONS = sizeof memory_functions / sizeof *memory_functions };
static Entry resolvers[MEMORY_FUNCTIONS];

const Entry* entry_named(const HChar* name) {
  if (VG_(strchr)("mcrapvft_", name[0]) == NULL) return NULL;
  for (UInt i = 0; i < sizeof family / sizeof *family; ++i)
    if (VG_(strcmp)(name, family[i].symbol) == 0) return &family[i];
  return NULL;
}

const Entry* memory_function_named(const HChar* name, Bool is_resolver) {
  for (UInt i = 0; i < MEMORY_FUNCTIONS; ++i)
    if (VG_(strcmp)(name, memory_functions[i].symbol) == 0) {
      resolvers[i] = (Entry){memory_functions[i].symbol, OP_COUNT, RESOLVES};
      return is_resolver ? &resolvers[i] : &memory_functions[i];
    }
  return NULL;
}

const Entry* resolved_by(const Entry* resolver) { return &memory_functions[resolver - resolvers]; }
