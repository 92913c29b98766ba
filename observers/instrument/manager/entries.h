// SPDX-License-Identifier: GPL-2.0-or-later
// Where the operations of the memory manager begin: the addresses of the malloc family's symbols in
// every loaded object, aliases included.

#ifndef TARE_INSTRUMENT_MANAGER_ENTRIES_H
#define TARE_INSTRUMENT_MANAGER_ENTRIES_H

#include "family.h"

void entries_initialise(void);

// The functions that set and copy memory begin operations, too, inside others.
void entries_watch_memory_functions(void);

// Others that are called when an object has been loaded, or has gone from `text`.
void entries_follow_loading_for(void (*loaded)(const DebugInfo* info),
                                void (*gone)(Addr text, SizeT bytes));

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
