// SPDX-License-Identifier: GPL-2.0-or-later
#include "frames.h"

UInt forks_of_process;

void frames_make_room(Thread* thread) {
  thread->capacity = thread->capacity == 0 ? 8 : 2 * thread->capacity;
  thread->frames =
      VG_(realloc)("tare.frames", thread->frames, thread->capacity * sizeof *thread->frames);
}
