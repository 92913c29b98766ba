// SPDX-License-Identifier: GPL-2.0-or-later
// The simulator's own memory, which is never given back: its tables double, so they take no more
// than twice what the last of them does.

#ifndef TARE_MEMSYS_MEMORY_H
#define TARE_MEMSYS_MEMORY_H

#include "core.h"

// All 0.
void* memory_new(SizeT bytes);

// As large as `bytes`, with what the old one of `old_bytes` has, and 0 behind it.
void* memory_grown(const void* old, SizeT old_bytes, SizeT bytes);

// Where it takes memory from: as memory_new. At first the core's own.
typedef void* MemorySource(SizeT bytes);
void memory_take_from(MemorySource* source);

#endif
