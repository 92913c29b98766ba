// SPDX-License-Identifier: GPL-2.0-or-later
// Room for the heap that grows by brk.
//
// The core reserves at most 8 MB of addresses for it, whatever the limits of the program. Beyond
// that brk fails, and an allocator that uses it goes another way than it does without Valgrind:
// glibc's maps its heap piece by piece. So the two calls by which the core makes the reservation
// are wrapped at link time (--wrap) and ask for more. A reservation is addresses only, no memory.

#include "core.h"

static const SizeT most_room = (SizeT)64 << 30;
static const SizeT core_room = (SizeT)8 << 20;

// The first reservation that shrinks at its lower end is the heap's; the stack's shrinks at its
// upper end, and programs' mappings reserve nothing.
static Bool heap_is_there;
static Bool has_little_room;

extern Bool __real_vgPlain_am_create_reservation(Addr start, SizeT bytes, ShrinkMode mode,
                                                 SSizeT extra);
extern Addr __real_vgPlain_am_get_advisory_client_simple(Addr start, SizeT bytes, Bool* ok);
Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT bytes, ShrinkMode mode, SSizeT extra);
Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT bytes, Bool* ok);

// For comparisons to the instruction with Valgrind's own tools: the same heap at the same place.
static Bool wants_the_core_s(void) {
  const HChar* const wish = VG_(getenv)("TARE_PROGRAM_BREAK");
  return wish != NULL && VG_(strcmp)(wish, "valgrind") == 0;
}

// Bytes for the heap where the core wants `wanted`: more only where its own bound held it down.
static SizeT room(SizeT wanted) {
  SizeT limit = VG_(client_rlimit_data).rlim_cur;
  if (limit > most_room) limit = most_room;
  limit = VG_PGROUNDUP(limit);
  return limit > core_room && !has_little_room && !wants_the_core_s() ? wanted + (limit - core_room)
                                                                      : wanted;
}

Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT bytes, ShrinkMode mode, SSizeT extra) {
  if (mode != SmLower || heap_is_there)
    return __real_vgPlain_am_create_reservation(start, bytes, mode, extra);
  heap_is_there = __real_vgPlain_am_create_reservation(start, room(bytes), mode, extra);
  return heap_is_there;
}

// Where the reservation does not fit behind the program, the core asks for another place.
Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT bytes, Bool* ok) {
  if (heap_is_there || start != 0 || bytes != core_room)
    return __real_vgPlain_am_get_advisory_client_simple(start, bytes, ok);
  const Addr found = __real_vgPlain_am_get_advisory_client_simple(start, room(bytes), ok);
  if (*ok) return found;
  has_little_room = True;
  return __real_vgPlain_am_get_advisory_client_simple(start, bytes, ok);
}
