// SPDX-License-Identifier: GPL-2.0-or-later
// How an object ends.

#ifndef TARE_INSTRUMENT_OBJECTS_DEATH_H
#define TARE_INSTRUMENT_OBJECTS_DEATH_H

#include "map.h"

typedef enum { NOT_FREED, BY_FREE, BY_REALLOC, BY_REGION } Freeing;

typedef struct {
  Freeing freeing;
  ULong clock;        // 0: alive at the end of the process
  ULong frees_since;  // uses from then on are teardown; NEVER_IN_TIME: none are
  ULong burst_since;  // of a burst before, with nothing allocated since then: stretches of uses
  ULong burst_until;  // that began in it and go on to the free are teardown as well; 0: none
  UInt thread;        // that freed, from 1; 0: not known
  UInt site;
} Death;

#endif
