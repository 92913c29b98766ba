// SPDX-License-Identifier: GPL-2.0-or-later
// For a core that cannot be patched: what the patches of core/ do, by calls of it that are wrapped
// at link time (--wrap).

#include "platform/program_break.h"
#include "translate/translate.h"

// The core asks this of each address to which a block might go on, and of each at which one begins;
// in the first case without a place for `is_wrapper`. Where the answer is another address than it
// asked for the block does not go on.
extern Addr __real_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper);
Addr __wrap_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper);
Addr __wrap_vgPlain_redir_do_lookup(Addr address, Bool* is_wrapper) {
  if (is_wrapper == NULL && tare_begins_block(address)) return address + 1;
  return __real_vgPlain_redir_do_lookup(address, is_wrapper);
}

#if defined(VGA_amd64)

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

static SizeT room(SizeT wanted) {
  return has_little_room ? wanted : wanted + (tare_room_for_heap(core_room) - core_room);
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

#endif
