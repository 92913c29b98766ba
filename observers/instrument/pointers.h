// SPDX-License-Identifier: GPL-2.0-or-later
// Records stores of heap pointers outside the manager and outside stacks: a word that points into
// an object, or replaces one that did. From them the graph of objects can be followed.

#ifndef TARE_INSTRUMENT_POINTERS_H
#define TARE_INSTRUMENT_POINTERS_H

#include "translation.h"

// `data` is about to be stored at `address`; of a vector, each of its words.
void pointers_add_store(Translation* translation, IRExpr* address, IRExpr* data, IRExpr* guard);

#endif
