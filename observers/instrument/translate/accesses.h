// SPDX-License-Identifier: GPL-2.0-or-later
// Code for the accesses to memory of a recording: uses of objects, and stores of pointers to them.

#ifndef TARE_INSTRUMENT_TRANSLATE_ACCESSES_H
#define TARE_INSTRUMENT_TRANSLATE_ACCESSES_H

#include "objects/pointers.h"

Bool accesses_are_followed(void);

// For each temporary of a block, the one that it is a constant distance from, and the distance.
typedef struct {
  PtrdiffT stack_pointer;
  IRTemp* base;
  Long* distance;
  UChar* of_stack;
} Origins;

Origins origins_begin(const IRSB* in, PtrdiffT stack_pointer);
void origins_end(Origins* origins);

// What has to be added behind a statement because of what it stores.
typedef struct {
  PartialStore parts[2];
  UInt used;
} Pending;

// Before a statement of `instruction` is added; and after it, with the result.
Pending accesses_add_before(Translation* translation, Origins* origins, const IRStmt* statement,
                            Addr instruction);
void accesses_add_after(Translation* translation, const Pending* pending);

#endif
