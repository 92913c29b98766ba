// SPDX-License-Identifier: GPL-2.0-or-later
// What an operation of the manager does to objects.

#ifndef TARE_INSTRUMENT_THREADS_EFFECTS_H
#define TARE_INSTRUMENT_THREADS_EFFECTS_H

#include "frames.h"

// At its first instruction, with the arguments of the call.
void note_arguments(const GuestState* state, Registers* registers, Frame* frame);

// When it has returned `result`. `usable_size` 0: not known.
void note_effect(const Thread* thread, const Frame* frame, Addr result, SizeT usable_size,
                 ULong clock);

// When it is over, whatever became of it: objects/teardown.h.
void follow_burst(const Frame* frame, Registers* registers);

#endif
