// SPDX-License-Identifier: GPL-2.0-or-later
// The program just before collections, and just after.

#ifndef TARE_MEMSYS_WINDOWS_H
#define TARE_MEMSYS_WINDOWS_H

#include "charges.h"

// `instructions`: before and after a collection that are looked at.
void windows_initialise(ULong instructions);

// `program`: what has happened outside of operations and collections.
void windows_note_progress(const Events* program);
void windows_begin_collection(const Events* program);
void windows_end_collection(const Events* program);

ULong collections(void);
const Events* events_before_collections(void);
const Events* events_after_collections(void);

void windows_reset(void);

#endif
