// SPDX-License-Identifier: GPL-2.0-or-later
// The clock of a block: what of its instructions is in the clock of the thread, and in the counts
// of executions.

#ifndef TARE_INSTRUMENT_EXECUTIONS_CLOCK_H
#define TARE_INSTRUMENT_EXECUTIONS_CLOCK_H

#include "guest/translation.h"

void add_to_clock(Translation* translation, IRExpr* instructions);

// Stores the clock, so that what is called next finds it right.
void bring_up_to_date(Translation* translation);

// An instruction that comes next, and is not in the clock yet.
void count_instruction(Translation* translation, Addr address, UInt bytes);

#endif
