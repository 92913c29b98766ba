// SPDX-License-Identifier: GPL-2.0-or-later
#include "entries.h"

#include "events.h"
#include "executions.h"
#include "symbols.h"

// size_t in the names of C++.
#if defined(VGA_amd64)
#define SIZE "m"
#else
#define SIZE "j"
#endif

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

typedef struct _Place {
  struct _Place* next;
  UWord address;
  const Entry* entry;
} Place;

typedef struct _Loaded {
  struct _Loaded* next;
  Addr text;
  SizeT text_bytes;
  HChar* file;
  Bool has_entries;
  Bool is_libc;
  Addr malloc_at;  // 0: it has none
  Addr usable_size_at;
} Loaded;

static VgHashTable* places;
static Loaded* loaded;
static DiEpoch epoch_seen;

void entries_initialise(void) {
  places = VG_(HT_construct)("tare.places");
  for (UInt i = 0; i < MEMORY_FUNCTIONS; ++i)
    resolvers[i] = (Entry){memory_functions[i].symbol, OP_COUNT, RESOLVES};
  epoch_seen = DiEpoch_INVALID();
}

static const Entry* entry_named(const HChar* name) {
  if (VG_(strchr)("mcrapvft_", name[0]) == NULL) return NULL;
  for (UInt i = 0; i < sizeof family / sizeof *family; ++i)
    if (VG_(strcmp)(name, family[i].symbol) == 0) return &family[i];
  return NULL;
}

static const Entry* memory_function_named(const HChar* name, Bool is_resolver) {
  for (UInt i = 0; i < MEMORY_FUNCTIONS; ++i)
    if (VG_(strcmp)(name, memory_functions[i].symbol) == 0)
      return is_resolver ? &resolvers[i] : &memory_functions[i];
  return NULL;
}

static void add_place(Addr address, const Entry* entry) {
  if (VG_(HT_lookup)(places, address) != NULL) return;
  Place* const place = VG_(calloc)("tare.place", 1, sizeof *place);
  place->address = address;
  place->entry = entry;
  VG_(HT_add_node)(places, place);
  if (VG_(clo_verbosity) > 1) VG_(umsg)("entry %s at %#lx\n", entry->symbol, address);
}

static void note_symbol(const DebugInfo* info, const HChar* name, Addr address, Bool is_resolver,
                        void* context) {
  (void)info;
  Loaded* const there = context;
  const Entry* entry = entry_named(name);
  if (entry == NULL && executions_are_on()) entry = memory_function_named(name, is_resolver);
  if (entry == NULL) return;
  add_place(address, entry);
  there->has_entries = True;
  if (entry->operation == OP_MALLOC) there->malloc_at = address;
  if (entry->shape == WANTS_USABLE_SIZE) there->usable_size_at = address;
}

static void look_into(const DebugInfo* info, Loaded* there) {
  // The dynamic linker's own small malloc serves it before any manager is there.
  const HChar* const soname = VG_(DebugInfo_get_soname)(info);
  if (soname != NULL && VG_(strncmp)(soname, "ld-linux", 8) == 0) return;
  there->is_libc = soname != NULL && VG_(strncmp)(soname, "libc.so", 7) == 0;
  symbols_visit(info, note_symbol, there);
}

static void forget_places(Addr start, SizeT bytes) {
  UInt count;
  VgHashNode** const nodes = VG_(HT_to_array)(places, &count);
  for (UInt i = 0; i < count; ++i) {
    const Addr address = nodes[i]->key;
    if (address - start < bytes) VG_(free)(VG_(HT_remove)(places, address));
  }
  if (nodes != NULL) VG_(free)(nodes);
}

static Loaded* known(Addr text, SizeT bytes, const HChar* file) {
  for (Loaded* each = loaded; each != NULL; each = each->next)
    if (each->text == text && each->text_bytes == bytes && VG_(strcmp)(each->file, file) == 0)
      return each;
  return NULL;
}

static void follow_object(const DebugInfo* info) {
  const Addr text = VG_(DebugInfo_get_text_avma)(info);
  const SizeT bytes = VG_(DebugInfo_get_text_size)(info);
  const HChar* const file = VG_(DebugInfo_get_filename)(info);
  if (bytes == 0 || file == NULL || known(text, bytes, file) != NULL) return;
  Loaded* const there = VG_(calloc)("tare.loaded", 1, sizeof *there);
  *there = (Loaded){.next = loaded,
                    .text = text,
                    .text_bytes = bytes,
                    .file = VG_(strdup)("tare.loaded.file", file)};
  loaded = there;
  look_into(info, there);
  events_follow_loading(info);
}

static Bool is_there(const Loaded* object) {
  for (const DebugInfo* info = VG_(next_DebugInfo)(NULL); info != NULL;
       info = VG_(next_DebugInfo)(info)) {
    const HChar* const file = VG_(DebugInfo_get_filename)(info);
    if (object->text == VG_(DebugInfo_get_text_avma)(info) &&
        object->text_bytes == VG_(DebugInfo_get_text_size)(info) && file != NULL &&
        VG_(strcmp)(object->file, file) == 0)
      return True;
  }
  return False;
}

// Objects come and go with dlopen and dlclose, and another can take the same addresses: what is
// gone is forgotten before what is new is looked into.
static void follow_loading(void) {
  Loaded** link = &loaded;
  while (*link != NULL) {
    Loaded* const each = *link;
    if (is_there(each)) {
      link = &each->next;
      continue;
    }
    *link = each->next;
    forget_places(each->text, each->text_bytes);
    events_forget(each->text, each->text_bytes);
    VG_(free)(each->file);
    VG_(free)(each);
  }
  for (const DebugInfo* info = VG_(next_DebugInfo)(NULL); info != NULL;
       info = VG_(next_DebugInfo)(info))
    follow_object(info);
}

const Entry* entry_at(Addr address) {
  const DiEpoch epoch = VG_(current_DiEpoch)();
  if (epoch.n != epoch_seen.n) {
    follow_loading();
    epoch_seen = epoch;
  }
  const Place* const place = VG_(HT_lookup)(places, address);
  return place != NULL ? place->entry : NULL;
}

void entries_add_resolved(const Entry* resolver, Addr function) {
  add_place(function, &memory_functions[resolver - resolvers]);
}

Bool may_end_operation(Addr address) {
  for (const Loaded* each = loaded; each != NULL; each = each->next)
    if (address - each->text < each->text_bytes) return each->has_entries;
  return True;
}

// The dynamic linker takes the C library's malloc only where no other object has one.
static const Loaded* object_with_malloc(void) {
  const Loaded* chosen = NULL;
  for (const Loaded* each = loaded; each != NULL; each = each->next)
    if (each->malloc_at != 0 && (chosen == NULL || chosen->is_libc)) chosen = each;
  return chosen;
}

Addr usable_size_function(void) {
  const Loaded* const object = object_with_malloc();
  return object == NULL ? 0 : object->usable_size_at;
}

const HChar* malloc_server(void) {
  const Loaded* const object = object_with_malloc();
  return object == NULL ? "-" : object->file;
}
