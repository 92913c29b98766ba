// SPDX-License-Identifier: GPL-2.0-or-later
#include "stretch.h"

enum {
  BUCKETS = 1 << 16,
  LARGEST_INSTRUCTION = 16,
  LARGEST_ACCESS = 4096,  // what the state of all registers takes, and more
  ACCESSES_OF_ONE = 32,   // a gather of eight elements makes the most
};

void draft_clear(Draft* draft) {
  draft->instructions = draft->fetches = draft->accesses = draft->reads = draft->writes = 0;
  draft->has_conditional = False;
}

Bool draft_has_room(const Draft* draft) {
  return draft->instructions < MOST_INSTRUCTIONS &&
         draft->accesses + ACCESSES_OF_ONE <= MOST_ACCESSES &&
         draft->fetches + LARGEST_INSTRUCTION < MOST_FETCHES;
}

static void add_fetch(Draft* draft, ULong chunk) {
  Fetch* const fetch = &draft->fetch[draft->fetches++];
  fetch->chunk = chunk;
  fetch->at = draft->instructions;
  fetch->before = draft->accesses;
}

// Whether the latest fetch was of `chunk`, and nothing since can have made a model forget it.
static Bool is_fetched(const Draft* draft, ULong chunk, const FetchRules* rules) {
  if (draft->fetches == 0) return False;
  const Fetch* const latest = &draft->fetch[draft->fetches - 1];
  return (latest->chunk & ~CONTINUES) == chunk &&
         !(rules->again_after_access && latest->before != draft->accesses);
}

void draft_instruction(Draft* draft, Addr address, UInt size, const FetchRules* rules) {
  if (size > LARGEST_INSTRUCTION) size = LARGEST_INSTRUCTION;
  const ULong first = address & ~(ULong)(rules->chunk_bytes - 1);
  const ULong last = (address + size - 1) & ~(ULong)(rules->chunk_bytes - 1);
  if (first != last || !is_fetched(draft, first, rules)) add_fetch(draft, first);
  for (ULong chunk = first; chunk != last;) {
    chunk += rules->chunk_bytes;
    add_fetch(draft, chunk | CONTINUES);
  }
  ++draft->instructions;
}

void draft_access(Draft* draft, UInt size, UInt flags) {
  // The rest of an instruction may follow a way out of the stretch in which it began.
  const UInt at = draft->instructions > 0 ? draft->instructions - 1 : 0;
  Access* const access = &draft->access[draft->accesses++];
  access->size = (UShort)(size > LARGEST_ACCESS ? LARGEST_ACCESS : size);
  access->at = (UChar)at;
  access->flags = (UChar)flags;
  ++*(flags & WRITES ? &draft->writes : &draft->reads);
  if (flags & CONDITIONAL) draft->has_conditional = True;
}

static ULong hash_bytes(ULong hash, const void* bytes, SizeT size) {
  const UChar* const byte = bytes;
  for (SizeT i = 0; i < size; ++i) hash = (hash ^ byte[i]) * 0x100000001b3ULL;
  return hash;
}

static Bool same_content(const Stretch* stretch, const Draft* draft, ULong totals) {
  return stretch->totals == totals && stretch->fetches == draft->fetches &&
         stretch->accesses == draft->accesses &&
         VG_(memcmp)(stretch->fetch, draft->fetch, draft->fetches * sizeof(Fetch)) == 0 &&
         VG_(memcmp)(stretch->access, draft->access, draft->accesses * sizeof(Access)) == 0;
}

const Stretch* stretch_of(const Draft* draft) {
  static Stretch* buckets[BUCKETS];
  const SizeT fetch_bytes = draft->fetches * sizeof(Fetch);
  const SizeT access_bytes = draft->accesses * sizeof(Access);
  const ULong totals = pack_totals(draft->instructions, draft->reads, draft->writes);
  ULong hash = hash_bytes(0xcbf29ce484222325ULL ^ totals, draft->fetch, fetch_bytes);
  hash = hash_bytes(hash, draft->access, access_bytes);
  Stretch** const bucket = &buckets[(hash ^ hash >> 32) % BUCKETS];
  for (Stretch* stretch = *bucket; stretch != NULL; stretch = stretch->next)
    if (same_content(stretch, draft, totals)) return stretch;
  Stretch* const stretch =
      VG_(calloc)("tare.stretch", 1, sizeof(Stretch) + fetch_bytes + access_bytes);
  stretch->next = *bucket;
  stretch->totals = totals;
  stretch->has_conditional = draft->has_conditional;
  stretch->fetches = (UShort)draft->fetches;
  stretch->accesses = (UShort)draft->accesses;
  stretch->access = (const Access*)(stretch->fetch + draft->fetches);
  VG_(memcpy)(stretch->fetch, draft->fetch, fetch_bytes);
  VG_(memcpy)(stretch->fetch + draft->fetches, draft->access, access_bytes);
  *bucket = stretch;
  return stretch;
}
