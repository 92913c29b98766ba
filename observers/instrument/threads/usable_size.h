// SPDX-License-Identifier: GPL-2.0-or-later
// The size that an object can really hold, from the manager's own malloc_usable_size.

#ifndef TARE_INSTRUMENT_THREADS_USABLE_SIZE_H
#define TARE_INSTRUMENT_THREADS_USABLE_SIZE_H

#include "frames.h"

// As leave_operation() for an object whose usable size is to be known: the first time the program
// goes on to malloc_usable_size, as if it had called it in place of returning, the second time to
// `next`. Sets Registers.leads_to.
HELPER void ask_and_leave_operation(GuestState* state, Addr next);

#endif
