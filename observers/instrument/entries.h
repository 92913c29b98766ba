// SPDX-License-Identifier: GPL-2.0-or-later
// Where the operations of the memory manager begin: the addresses of the malloc family's symbols in
// every loaded object, aliases included.

#ifndef TARE_INSTRUMENT_ENTRIES_H
#define TARE_INSTRUMENT_ENTRIES_H

#include "core.h"
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

void entries_initialise(void);

// NULL unless an operation begins at `address`. Objects loaded since the last call are looked into
// first, so this must be asked before code at `address` is translated.
const Entry* entry_at(Addr address);

// The resolver at `resolver` has found where its function begins.
void entries_add_resolved(const Entry* resolver, Addr function);

// malloc_usable_size of the object that has the program's malloc; 0 when it has none.
Addr usable_size_function(void);

// The file of that object; "-" when there is none.
const HChar* malloc_server(void);

// Whether a return in the code at `address` can be the one that ends an operation. An operation
// returns from the object in which it began, or from another of the family that it went on to in
// a tail call, so the returns of other objects need not be looked at. entry_at() was asked before.
Bool may_end_operation(Addr address);

#endif
