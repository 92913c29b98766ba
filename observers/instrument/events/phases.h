// SPDX-License-Identifier: GPL-2.0-or-later
// The phases that each thread is in. They nest: the instructions of a thread count for the phase
// that began last.

#ifndef TARE_INSTRUMENT_EVENTS_PHASES_H
#define TARE_INSTRUMENT_EVENTS_PHASES_H

#include "guest/registers.h"
#include "manager/counts.h"

// `until`: the phase ends with a return that leaves the stack pointer above it; 0: by phase_end().
void phase_begin(Registers* registers, UInt name, Addr until);
void phase_end(Registers* registers, UInt name);

// Ends the phases that do not last longer than a return with `stack_pointer`.
void phases_end_above(Registers* registers, Addr stack_pointer);

// The thread's clock goes on from another value; or what it does is another operation from now on.
void phases_shift_clock(ThreadId thread, ULong difference);
void phases_note_operation(Registers* registers, Operation operation);

// What the thread is in: the number of the innermost phase from 1, or 0 for none. Where executions
// are counted, all its phases, as bits of the numbers of their names.
ULong phase_of(ThreadId thread);

// A phase or phases as a value of JSON: a name, or where executions are counted a list of them.
void put_phase(VgFile* file, ULong phase);

// The bit of a phase with that name where executions are counted; 0: there is none.
ULong phase_bit(const HChar* name);

void phases_end_thread(ThreadId thread, ULong clock);
void phases_start_child(ThreadId thread);

#endif
