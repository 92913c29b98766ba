// SPDX-License-Identifier: GPL-2.0-or-later
// The functions of the malloc family, by the names that they have in the symbols of an object.

#ifndef TARE_INSTRUMENT_MANAGER_FAMILY_H
#define TARE_INSTRUMENT_MANAGER_FAMILY_H

#include "counts.h"

// Where a call says what it wants, and what it gives. Registers by the System V ABI for amd64.
typedef enum {
  WANTS_FIRST,           // size in the first argument
  WANTS_FIRST_IN_PAGES,  // the same, aligned to a page
  WANTS_FIRST_ALIGNED,   // size, alignment
  WANTS_FIRST_X_SECOND,  // elements and their size
  WANTS_SECOND,          // alignment, size
  WANTS_THIRD,           // posix_memalign: where to put the address, alignment, size
  RESIZES,               // object, size
  RESIZES_ELEMENTS,      // object, elements, their size
  ENDS_FIRST,            // object
  WANTS_USABLE_SIZE,     // object
  WANTS_NOTHING,
  WORKS_INSIDE,  // sets or copies memory: counted apart in a calloc or a realloc, else not at all
  RESOLVES       // gives the address of the function to use on this processor (GNU's IFUNC)
} Shape;

typedef struct {
  const HChar* symbol;
  Operation operation;
  Shape shape;
} Entry;

static inline Bool gives_objects(const Entry* entry) { return entry->shape < ENDS_FIRST; }

// NULL: none of the family has that name.
const Entry* entry_named(const HChar* symbol);

// The same of functions that set or copy memory, or of what resolves them.
const Entry* memory_function_named(const HChar* symbol, Bool is_resolver);
const Entry* resolved_by(const Entry* resolver);

#endif
