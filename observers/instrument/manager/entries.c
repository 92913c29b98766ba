// SPDX-License-Identifier: GPL-2.0-or-later
#include "entries.h"

#include "guest/symbols.h"

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
static Bool watches_memory_functions;
static void (*on_loaded)(const DebugInfo* info);
static void (*on_gone)(Addr text, SizeT bytes);

void entries_initialise(void) {
  places = VG_(HT_construct)("tare.places");
  epoch_seen = DiEpoch_INVALID();
}

void entries_watch_memory_functions(void) { watches_memory_functions = True; }

void entries_follow_loading_for(void (*loaded_object)(const DebugInfo* info),
                                void (*gone)(Addr text, SizeT bytes)) {
  on_loaded = loaded_object;
  on_gone = gone;
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
  if (entry == NULL && watches_memory_functions) entry = memory_function_named(name, is_resolver);
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
  if (on_loaded != NULL) on_loaded(info);
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
    if (on_gone != NULL) on_gone(each->text, each->text_bytes);
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
  add_place(function, resolved_by(resolver));
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
