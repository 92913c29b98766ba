// SPDX-License-Identifier: GPL-2.0-or-later
// The operations of the manager, as threads enter and leave them.

#ifndef TARE_INSTRUMENT_THREADS_OPERATIONS_H
#define TARE_INSTRUMENT_THREADS_OPERATIONS_H

#include "frames.h"

// Translated code calls these with the guest state.
HELPER void enter_operation(GuestState* state, const Entry* entry);
HELPER void enter_memory_function(GuestState* state, const Entry* entry);
HELPER void leave_operation(GuestState* state, Addr next);

// The innermost operation ends and goes on at `next`, with `result`.
void end_operation(Registers* registers, Addr next, Addr result, SizeT usable_size);

// The operations that are over with this stack pointer, if any, end likewise.
void end_what_returned(Registers* registers, Addr stack_pointer, Addr next, Addr result);

// What is executed and used from now on is charged to what the thread is in.
void follow_top(const Thread* thread, Registers* registers);
void charge_accesses(const Thread* thread);

// An operation that is over is counted.
void charge(const Frame* frame);

// A handler that ended by a longjmp never returns to what it interrupted: frames below `lowest` are
// over. Frames on the signal stack are, once the thread is not on it.
void drop_abandoned(Thread* thread, Registers* registers, Addr stack_pointer, Addr lowest);
void leave_calls_of_handler(Registers* registers, const Frame* handler);

#endif
