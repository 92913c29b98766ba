// SPDX-License-Identifier: GPL-2.0-or-later
// Records stores of heap pointers outside the manager and outside stacks: a word that points into
// an object, or replaces one that did. From them the graph of objects can be followed.

#ifndef TARE_INSTRUMENT_OBJECTS_POINTERS_H
#define TARE_INSTRUMENT_OBJECTS_POINTERS_H

#include "guest/translation.h"

// `data` is about to be stored at `address`; of a vector, each of its words.
void pointers_add_store(Translation* translation, IRExpr* address, IRExpr* data, IRExpr* guard);

// A store of less than a word destroys a pointer, or completes one: what is to be known before it
// is needed after it. `word` NULL: it is no such store. `repeats`: it is one of a string's.
typedef struct {
  IRExpr* word;
  IRExpr* before;
  IRExpr* guard;
} PartialStore;

PartialStore pointers_add_before_part(Translation* translation, IRExpr* address, const IRExpr* data,
                                      IRExpr* guard, Bool repeats);
// The same for a word that a compare-and-swap may change.
PartialStore pointers_add_before_exchange(Translation* translation, IRExpr* address);
void pointers_add_after_part(Translation* translation, const PartialStore* part);

#endif
