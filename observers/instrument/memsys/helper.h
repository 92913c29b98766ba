// SPDX-License-Identifier: GPL-2.0-or-later
// A second process in the memory of this one, in which the simulator runs beside the program. The
// program does not see it: it is no thread of the process, and no child that a wait finds.

#ifndef TARE_MEMSYS_HELPER_H
#define TARE_MEMSYS_HELPER_H

#include "simulator.h"

// Starts one, unless there is one. False: there is only one processor, or the system refuses. Then,
// and before, steps are taken as they are given.
Bool helper_start(void);

// Gives the simulator its next step, and gives the number of steps so far.
ULong helper_give(const Step* step);

Bool helper_has_taken(ULong steps);

// Returns once so many steps were taken.
void helper_await(ULong steps);

// All steps were taken, and the helper is gone.
void helper_stop(void);

// In the child of a fork, which has none.
void helper_forget(void);

#endif
