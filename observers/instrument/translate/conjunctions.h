// SPDX-License-Identifier: GPL-2.0-or-later
// Blocks in which two branches that form "a && b" are one.

#ifndef TARE_INSTRUMENT_TRANSLATE_CONJUNCTIONS_H
#define TARE_INSTRUMENT_TRANSLATE_CONJUNCTIONS_H

#include "guest/translation.h"

// Adds `exit`, with the clock right on both its ways. `certain`: the instructions of the block
// before those of b; 0: it is no such pair.
void add_side_exit(Translation* translation, const IRSB* in, IRStmt* exit, UInt certain);

#endif
