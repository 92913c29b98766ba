// SPDX-License-Identifier: GPL-2.0-or-later
// What is charged to whom: in each context, an operation of the memory manager or the program, in a
// phase, called from a place, what happened and what it met in each model.

#ifndef TARE_MEMSYS_CHARGES_H
#define TARE_MEMSYS_CHARGES_H

#include "model.h"

// What happened, and in each model what it met.
typedef struct {
  ULong instructions;
  ULong reads;
  ULong writes;
  Counts models[];
} Events;

typedef struct {
  UInt operation;
  UInt number;  // among those that were written
  ULong phase;
  Addr caller;
  ULong calls;
  Events* events;
  Occurrences occurrences;
} Charge;

void charges_initialise(UInt models);

Events* events_new(void);
void events_copy(Events* to, const Events* from);
void events_clear(Events* events);
void events_add_difference(Events* sum, const Events* now, const Events* then);

// Of that context. Beyond the most that are distinguished, without its caller.
Charge* charge_of(UInt operation, ULong phase, Addr caller);

// The one at `*place` or behind, which `*place` is then behind; NULL: that was the last.
Charge* charges_next(UInt* place);

void charges_reset(void);

#endif
