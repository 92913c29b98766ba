// SPDX-License-Identifier: GPL-2.0-or-later
// Teardown: code that frees reads what it is about to free (a destructor follows the links of a
// tree, a loop the pointers of an array), and such a use is no need of the object.
//
// A thread is in a burst of frees while each follows the one before within few instructions of the
// program's own, and nothing is allocated in between. The last uses of an object are teardown when
// all of them, since it was left alone before, lie in the burst that frees it, or right before it.

#ifndef TARE_INSTRUMENT_OBJECTS_TEARDOWN_H
#define TARE_INSTRUMENT_OBJECTS_TEARDOWN_H

#include "death.h"
#include "guest/registers.h"

// Instructions. Destructors of the standard containers, compiled without optimisation, take up to
// 300 from one free to the next, and 700 those of GCC 15; from the first look at a container to its
// first free they take some 30, and what the program does before is its work.
enum { TEARDOWN_BETWEEN_FREES = 1024, TEARDOWN_BEFORE_FIRST = 64 };

// After so many frees, what the burst has begun to use and uses until it is freed is torn down,
// too, however long that takes: a hash table has its buckets zeroed before they go.
enum { TEARDOWN_FREES = 16 };

// A use more than TEARDOWN_BEFORE_FIRST after the one before it, or the first in a burst, begins a
// stretch of uses.
static inline ULong teardown_stretch_bound(const Registers* registers) {
  const ULong now = registers->clock;
  if (now < registers->frees_until) return registers->frees_since;
  return now - (now < TEARDOWN_BEFORE_FIRST ? now : TEARDOWN_BEFORE_FIRST);
}

static inline void teardown_before_free(Registers* registers, Death* death) {
  if (registers->clock >= registers->frees_until) {
    if (registers->frees >= TEARDOWN_FREES) {
      death->burst_since = registers->frees_since;
      death->burst_until = registers->frees_until;
    }
    registers->frees = 0;
  }
  registers->frees_since = teardown_stretch_bound(registers);
  registers->frees_until = NEVER_IN_TIME;
  ++registers->frees;
  death->frees_since = registers->frees_since;
}

static inline void teardown_after_free(Registers* registers) {
  registers->frees_until = registers->clock + TEARDOWN_BETWEEN_FREES;
}

static inline void teardown_no_more(Registers* registers) {
  registers->frees_until = registers->frees = 0;
}

#endif
