// SPDX-License-Identifier: GPL-2.0-or-later
#include "program_break.h"

static const SizeT most_room = (SizeT)64 << 30;

// For comparisons to the instruction with Valgrind's own tools: the same heap at the same place.
static Bool wants_the_core_s(void) {
  const HChar* const wish = VG_(getenv)("TARE_PROGRAM_BREAK");
  return wish != NULL && VG_(strcmp)(wish, "valgrind") == 0;
}

SizeT tare_room_for_heap(SizeT usual) {
  SizeT limit = VG_(client_rlimit_data).rlim_cur;
  if (limit > most_room) limit = most_room;
  limit = VG_PGROUNDUP(limit);
  return limit > usual && !wants_the_core_s() ? limit : usual;
}
