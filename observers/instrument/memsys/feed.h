// SPDX-License-Identifier: GPL-2.0-or-later
// Code that writes the stream of accesses, and the moments at which the stream is handed on.
//
// A basic block becomes part of the stream when its end is reached. One that a fault cuts off is
// not.

#ifndef TARE_MEMSYS_FEED_H
#define TARE_MEMSYS_FEED_H

#include "guest/translation.h"

// False: nothing is simulated, and nothing below may be called.
extern Bool feed_was_started;
static inline Bool feed_is_on(void) { return FOLLOWS_MEMORY && feed_was_started; }

// Reads the models of `path`, or ends the run with a message. `bit_of_phase` gives what
// feed_set_phase() takes for a phase of that name, or 0.
void feed_start(const HChar* path, ULong (*bit_of_phase)(const HChar* name));

// The calls in which a superblock is translated, in the order of its statements: one at its start,
// one for each statement before it is added, and one at its end.
void feed_begin_block(Translation* translation);
void feed_statement(Translation* translation, const IRStmt* statement);
void feed_end_block(Translation* translation);

// Before code is added that may change whom accesses are charged to.
void feed_before_call(Translation* translation);

// ---- at run time ----

// Whom the accesses from now on are charged to: an operation of the memory manager by its number
// plus 1, and its caller; or 0, the program.
void feed_set_operation(UInt operation, Addr caller);

// The operation that was just set begins, and does not go on.
void feed_count_call(void);

// What phase_of() says of the thread.
void feed_set_phase(ULong phase);

// All that has happened so far is in the counts.
void feed_drain(void);

// The process ends, or becomes another program: nothing runs beside it any more.
void feed_stop(void);

#endif
