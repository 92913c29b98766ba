// SPDX-License-Identifier: GPL-2.0-or-later
// The life of each thread: its start, its signals, its end, and the clock that all have together.

#ifndef TARE_INSTRUMENT_THREADS_THREADS_H
#define TARE_INSTRUMENT_THREADS_THREADS_H

#include "frames.h"

void threads_initialise(void);

Thread* thread_of(ThreadId id);

// A handler is about to return: the core will set back the registers, the clock among them.
void threads_before_sigreturn(ThreadId id);

// Instructions of the process so far.
ULong threads_clock(void);

// Ends what the threads still alive are in. Called once.
void threads_finish(void);

#endif
