// SPDX-License-Identifier: GPL-2.0-or-later
#include "occurrences.h"

enum { FIRST_CAPACITY = 1 << 12 };

static Bool same_place(const Occurrence* one, const Occurrence* other) {
  return one->block == other->block && one->model == other->model && one->at == other->at &&
         one->event == other->event;
}

// Of the same instruction, or the empty one where it belongs.
static Occurrence* entry_of(const Occurrences* table, const Occurrence* wanted) {
  const ULong key = (ULong)wanted->block->number << 24 ^ (ULong)wanted->model << 16 ^
                    (ULong)wanted->event << 8 ^ wanted->at;
  UInt place = (UInt)(key * 0x9e3779b97f4a7c15ULL >> 32);
  for (;; ++place) {
    Occurrence* const entry = &table->entries[place & (table->capacity - 1)];
    if (entry->block == NULL || same_place(entry, wanted)) return entry;
  }
}

static void grow(Occurrences* table) {
  const Occurrences old = *table;
  table->capacity = old.capacity == 0 ? FIRST_CAPACITY : 2 * old.capacity;
  table->entries = VG_(calloc)("tare.occurrences", table->capacity, sizeof *table->entries);
  for (UInt i = 0; i < old.capacity; ++i)
    if (old.entries[i].block != NULL) *entry_of(table, &old.entries[i]) = old.entries[i];
  if (old.entries != NULL) VG_(free)(old.entries);
}

void occurrences_add(Occurrences* table, const Occurrence* more) {
  if (table->used >= table->capacity / 2) grow(table);
  Occurrence* const entry = entry_of(table, more);
  if (entry->block == NULL) {
    *entry = *more;
    ++table->used;
  } else {
    entry->count += more->count;
  }
}

void occurrences_clear(Occurrences* table) {
  if (table->entries != NULL) VG_(free)(table->entries);
  *table = (Occurrences){NULL, 0, 0};
}
