// SPDX-License-Identifier: GPL-2.0-or-later
#include "distances.h"

#include "memory.h"

enum {
  WORD_SLOTS = 64,
  BLOCK_SLOTS = 512,  // a cache line of marks
  FIRST_SLOTS = 1 << 16,
  FIRST_TABLE = 1 << 15,
  NEAR_SLOTS = 2048,  // counted without the tree
};

static void allocate_slots(Distances* distances, UInt slots) {
  distances->owner_of =
      memory_grown(distances->owner_of, distances->slots * sizeof(UInt), slots * sizeof(UInt));
  distances->marks = memory_new(slots / WORD_SLOTS * sizeof(ULong));
  distances->tree = memory_new((slots / BLOCK_SLOTS + 1) * sizeof(UInt));
  distances->slots = slots;
}

static void clear_slots(Distances* distances) {
  VG_(memset)(distances->marks, 0, distances->slots / 8);
  VG_(memset)(distances->tree, 0, (distances->slots / BLOCK_SLOTS + 1) * sizeof(UInt));
}

void distances_initialise(Distances* distances) {
  VG_(memset)(distances, 0, sizeof *distances);
  distances->table_capacity = FIRST_TABLE;
  distances->table = memory_new(FIRST_TABLE * sizeof(UInt));
  allocate_slots(distances, FIRST_SLOTS);
  clear_slots(distances);
}

// ---- marks ----

static void tree_add(Distances* distances, UInt block, Int change) {
  for (UInt node = block + 1; node <= distances->slots / BLOCK_SLOTS; node += node & -node)
    distances->tree[node] += (UInt)change;
}

// Marks in the blocks before `block`.
static UInt tree_sum(const Distances* distances, UInt block) {
  UInt sum = 0;
  for (UInt node = block; node > 0; node -= node & -node) sum += distances->tree[node];
  return sum;
}

static UInt count_bits(ULong word) { return (UInt)__builtin_popcountll(word); }

// Marks in the slots from `first` up to `end`.
static UInt count_marks(const Distances* distances, UInt first, UInt end) {
  if (first >= end) return 0;
  const UInt last_word = (end - 1) / WORD_SLOTS;
  UInt word = first / WORD_SLOTS;
  ULong bits = distances->marks[word] & (~(ULong)0 << first % WORD_SLOTS);
  UInt sum = 0;
  for (; word < last_word; bits = distances->marks[++word]) sum += count_bits(bits);
  const UInt beyond = WORD_SLOTS - 1 - (end - 1) % WORD_SLOTS;
  return sum + count_bits(bits & (~(ULong)0 >> beyond));
}

static ULong marks_behind(const Distances* distances, UInt slot) {
  if (distances->now - slot <= NEAR_SLOTS) return count_marks(distances, slot + 1, distances->now);
  const UInt block_end = (slot / BLOCK_SLOTS + 1) * BLOCK_SLOTS;
  return distances->used - tree_sum(distances, block_end / BLOCK_SLOTS) +
         count_marks(distances, slot + 1, block_end);
}

static void mark(Distances* distances, UInt use, UInt slot) {
  distances->marks[slot / WORD_SLOTS] |= (ULong)1 << slot % WORD_SLOTS;
  distances->owner_of[slot] = use;
  distances->uses[use].slot = slot;
}

static Bool is_marked(const Distances* distances, UInt slot) {
  return distances->marks[slot / WORD_SLOTS] >> slot % WORD_SLOTS & 1;
}

static void move_marks_together(Distances* distances) {
  UInt marked = 0;
  for (UInt slot = 0; slot < distances->now; ++slot)
    if (is_marked(distances, slot)) distances->owner_of[marked++] = distances->owner_of[slot];
  if (marked > distances->slots / 2) allocate_slots(distances, 2 * distances->slots);
  clear_slots(distances);
  for (UInt slot = 0; slot < marked; ++slot) {
    mark(distances, distances->owner_of[slot], slot);
    ++distances->tree[slot / BLOCK_SLOTS + 1];
  }
  const UInt blocks = distances->slots / BLOCK_SLOTS;
  for (UInt node = 1; node <= blocks; ++node)
    if (node + (node & -node) <= blocks)
      distances->tree[node + (node & -node)] += distances->tree[node];
  distances->now = marked;
}

// ---- lines ----

static UInt* place_of(const Distances* distances, ULong line) {
  const UInt mask = distances->table_capacity - 1;
  UInt place = (UInt)(line * 0x9e3779b97f4a7c15ULL >> 32) & mask;
  while (distances->table[place] != 0 && distances->uses[distances->table[place] - 1].line != line)
    place = (place + 1) & mask;
  return &distances->table[place];
}

static void grow_table(Distances* distances) {
  distances->table_capacity *= 2;
  distances->table = memory_new(distances->table_capacity * sizeof(UInt));
  for (UInt use = 0; use < distances->used; ++use)
    *place_of(distances, distances->uses[use].line) = use + 1;
}

static UInt add_line(Distances* distances, ULong line) {
  if (distances->used == distances->uses_capacity) {
    const UInt old = distances->uses_capacity;
    distances->uses_capacity = old == 0 ? 1024 : 2 * old;
    distances->uses = memory_grown(distances->uses, old * sizeof(LineUse),
                                   distances->uses_capacity * sizeof(LineUse));
  }
  if (distances->used >= distances->table_capacity / 2) grow_table(distances);
  distances->uses[distances->used].line = line;
  *place_of(distances, line) = distances->used + 1;
  return distances->used++;
}

ULong distances_use(Distances* distances, ULong line) {
  if (distances->now == distances->slots) move_marks_together(distances);
  const UInt found = *place_of(distances, line);
  if (found == 0) {
    mark(distances, add_line(distances, line), distances->now);
    tree_add(distances, distances->now++ / BLOCK_SLOTS, 1);
    return FIRST_USE;
  }
  const UInt slot = distances->uses[found - 1].slot;
  if (slot + 1 == distances->now) return 0;
  const ULong distance = marks_behind(distances, slot);
  distances->marks[slot / WORD_SLOTS] &= ~((ULong)1 << slot % WORD_SLOTS);
  mark(distances, found - 1, distances->now);
  const UInt before = slot / BLOCK_SLOTS, after = distances->now++ / BLOCK_SLOTS;
  if (before != after) {
    tree_add(distances, before, -1);
    tree_add(distances, after, 1);
  }
  return distance;
}
