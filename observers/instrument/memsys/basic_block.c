// SPDX-License-Identifier: GPL-2.0-or-later
#include "basic_block.h"

#include "memory.h"

enum {
  BUCKETS = 1 << 16,
  LARGEST_INSTRUCTION = 16,
  LARGEST_ACCESS = 4096,  // what the state of all registers takes, and more
  ACCESSES_OF_ONE = 32,   // a gather of eight elements makes the most
  // Accesses in one place cost one look if they are in one line, and more than else if not.
  MOST_PLACE_BYTES = 16,
};

static const Link** links;  // by the number of a chunk
static UInt links_capacity;
static UInt blocks;  // that are linked
static UInt chunks;  // of these
static UInt made;

UInt basic_block_numbers(void) { return blocks; }

UInt linked_chunk_numbers(void) { return chunks; }

const Link* links_of_chunk(UInt number) { return number < links_capacity ? links[number] : NULL; }

void basic_block_link(const BasicBlock* block) {
  if (block->number >= blocks) blocks = block->number + 1;
  for (UInt i = 0; i < block->fetches; ++i)
    if (block->fetch[i].number >= chunks) chunks = block->fetch[i].number + 1;
  if (chunks > links_capacity) {
    const UInt old = links_capacity;
    links_capacity = 2 * chunks;
    links = memory_grown(links, old * sizeof *links, links_capacity * sizeof *links);
  }
  for (UInt i = 0; i < block->fetches; ++i) {
    const Link** const first = &links[block->fetch[i].number];
    if (*first != NULL && (*first)->block == block) continue;
    Link* const link = memory_new(sizeof *link);
    *link = (Link){*first, block};
    *first = link;
  }
}

// ---- drafts ----

void draft_clear(Draft* draft) {
  draft->instructions = draft->fetches = draft->accesses = draft->places = draft->reads =
      draft->writes = draft->known = 0;
  draft->has_conditional = False;
}

Bool draft_has_room(const Draft* draft) {
  return draft->instructions < MOST_INSTRUCTIONS &&
         draft->accesses + ACCESSES_OF_ONE <= MOST_ACCESSES &&
         draft->fetches + LARGEST_INSTRUCTION < MOST_FETCHES;
}

static void add_fetch(Draft* draft, ULong chunk, const FetchRules* rules) {
  Fetch* const fetch = &draft->fetch[draft->fetches++];
  fetch->chunk = chunk;
  fetch->number = chunk_number(chunk & ~CONTINUES, rules);
  fetch->at = (UShort)draft->instructions;
  fetch->before = (UShort)draft->accesses;
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
  if (first != last || !is_fetched(draft, first, rules)) add_fetch(draft, first, rules);
  for (ULong chunk = first; chunk != last;) {
    chunk += rules->chunk_bytes;
    add_fetch(draft, chunk | CONTINUES, rules);
  }
  if (rules->knows_instructions)
    draft->instruction[draft->known++] = instruction_place(address, size);
  ++draft->instructions;
}

static void add_access(Draft* draft, Int offset, UInt size, UInt flags) {
  // The rest of an instruction may follow a way out of the block in which it began.
  const UInt at = draft->instructions > 0 ? draft->instructions - 1 : 0;
  draft->offset[draft->accesses] = offset;
  Access* const access = &draft->access[draft->accesses++];
  access->size = (UShort)size;
  access->at = (UChar)at;
  access->flags = (UChar)flags;
  ++*(flags & WRITES ? &draft->writes : &draft->reads);
  if (flags & CONDITIONAL) draft->has_conditional = True;
  access->place = (UChar)(draft->places - 1);
}

void draft_access(Draft* draft, UInt size, UInt flags) {
  if (size > LARGEST_ACCESS) size = LARGEST_ACCESS;
  draft->place[draft->places++].first = (UShort)draft->accesses;
  draft->lowest = 0;
  draft->highest = (Int)size - 1;
  add_access(draft, 0, size, flags);
}

Bool draft_access_beside(Draft* draft, PtrdiffT distance, UInt size, UInt flags) {
  if (draft->places == 0 || distance < -MOST_PLACE_BYTES || distance > MOST_PLACE_BYTES ||
      size > MOST_PLACE_BYTES || draft->highest >= MOST_PLACE_BYTES)
    return False;
  if ((flags | draft->access[draft->accesses - 1].flags) & CONDITIONAL) return False;
  const Int from = (Int)distance, to = from + (Int)size - 1;
  const Int lowest = from < draft->lowest ? from : draft->lowest;
  const Int highest = to > draft->highest ? to : draft->highest;
  if (highest - lowest >= MOST_PLACE_BYTES) return False;
  draft->lowest = lowest;
  draft->highest = highest;
  add_access(draft, from, size, flags);
  return True;
}

// Offsets from the lowest byte of a place instead of from its first access.
static void settle_places(Draft* draft) {
  draft->place[draft->places] = (Place){0, (UShort)draft->accesses};
  for (UInt i = 0; i < draft->places; ++i) {
    Place* const place = &draft->place[i];
    const UInt behind = place[1].first;
    Int lowest = 0, highest = 0;
    for (UInt each = place->first; each < behind; ++each) {
      const Int offset = draft->offset[each];
      if (offset < lowest) lowest = offset;
      if (offset + draft->access[each].size - 1 > highest)
        highest = offset + draft->access[each].size - 1;
    }
    for (UInt each = place->first; each < behind; ++each)
      draft->access[each].offset = (UChar)(draft->offset[each] - lowest);
    place->last = (UShort)(highest - lowest);
  }
}

static ULong hash_bytes(ULong hash, const void* bytes, SizeT size) {
  const UChar* const byte = bytes;
  for (SizeT i = 0; i < size; ++i) hash = (hash ^ byte[i]) * 0x100000001b3ULL;
  return hash;
}

static Bool same_content(const BasicBlock* block, const Draft* draft, ULong totals) {
  return block->totals == totals && block->fetches == draft->fetches &&
         block->accesses == draft->accesses &&
         VG_(memcmp)(block->fetch, draft->fetch, draft->fetches * sizeof(Fetch)) == 0 &&
         VG_(memcmp)(block->access, draft->access, draft->accesses * sizeof(Access)) == 0 &&
         VG_(memcmp)(block->instruction, draft->instruction, draft->known * sizeof(ULong)) == 0;
}

const BasicBlock* basic_block_of(Draft* draft, Bool* is_new) {
  static BasicBlock* buckets[BUCKETS];
  const SizeT fetch_bytes = draft->fetches * sizeof(Fetch);
  const SizeT access_bytes = draft->accesses * sizeof(Access);
  const SizeT place_bytes = (draft->places + 1) * sizeof(Place);
  const SizeT instruction_bytes = draft->known * sizeof(ULong);
  settle_places(draft);
  const ULong totals = pack_totals(draft->instructions, draft->reads, draft->writes);
  ULong hash = hash_bytes(0xcbf29ce484222325ULL ^ totals, draft->fetch, fetch_bytes);
  hash = hash_bytes(hash, draft->access, access_bytes);
  hash = hash_bytes(hash, draft->instruction, instruction_bytes);
  BasicBlock** const bucket = &buckets[(hash ^ hash >> 32) % BUCKETS];
  for (BasicBlock* block = *bucket; block != NULL; block = block->next)
    if (same_content(block, draft, totals)) {
      *is_new = False;
      return block;
    }
  BasicBlock* const block = VG_(calloc)(
      "tare.basic block", 1,
      sizeof(BasicBlock) + fetch_bytes + instruction_bytes + access_bytes + place_bytes);
  block->next = *bucket;
  block->totals = totals;
  block->has_conditional = draft->has_conditional;
  block->fetches = (UShort)draft->fetches;
  block->accesses = (UShort)draft->accesses;
  block->places = (UShort)draft->places;
  block->instruction = (const ULong*)(block->fetch + draft->fetches);
  block->access = (const Access*)(block->instruction + draft->known);
  block->place = (const Place*)(block->access + draft->accesses);
  VG_(memcpy)(block->fetch, draft->fetch, fetch_bytes);
  VG_(memcpy)((Access*)block->access, draft->access, access_bytes);
  VG_(memcpy)((Place*)block->place, draft->place, place_bytes);
  VG_(memcpy)((ULong*)block->instruction, draft->instruction, instruction_bytes);
  block->number = made++;
  *bucket = block;
  *is_new = True;
  return block;
}
