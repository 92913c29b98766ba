// SPDX-License-Identifier: GPL-2.0-or-later
// Room for the heap that grows by brk.
//
// The core reserves at most 8 MB of addresses for it, whatever the limits of the program. Beyond
// that brk fails, and an allocator that uses it goes another way than it does without Valgrind:
// glibc's maps its heap piece by piece. A reservation is addresses only, no memory.

#ifndef TARE_INSTRUMENT_PLATFORM_PROGRAM_BREAK_H
#define TARE_INSTRUMENT_PLATFORM_PROGRAM_BREAK_H

#include "core.h"

// Bytes to reserve where the core would reserve `usual`; it asks so by core/heap-room.patch.
SizeT tare_room_for_heap(SizeT usual);

#endif
