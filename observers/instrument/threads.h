// SPDX-License-Identifier: GPL-2.0-or-later
// What each thread is doing: in the program, in an operation of the manager, in a signal handler.
//
// The part that translated code reads and writes lies in the thread's first shadow register area,
// which the core keeps per thread and which no other tool code uses here: no saving at switches,
// and an access is one instruction relative to the register that points to the guest state.

#ifndef TARE_INSTRUMENT_THREADS_H
#define TARE_INSTRUMENT_THREADS_H

#include <stddef.h>

#include "core.h"
#include "entries.h"
#include "guest.h"

typedef struct _Thread Thread;

typedef struct {
  ULong clock;            // instructions of the process; right while the thread runs
  Addr leaves_above;      // a return with a stack pointer above this ends the operation
  Addr inside;            // 1 in an operation of the manager, else 0
  Addr map;               // where code that uses memory looks for objects: OBJECT_MAP or EMPTY_MAP
  Addr calls;             // sites.c: behind the last note of a call
  Addr calls_end;         // from where on the notes must be made fewer
  Addr phase_ends_above;  // events.c: a return with a stack pointer above this ends a phase
  Addr counters;          // executions.c: of the context that the thread is in
  ULong thread_id;
  Thread* thread;
} Registers;

enum {
  REGISTERS_OFFSET = offsetof(GuestState, GUEST_RESULT),
  REGISTERS_AREA = 1,
};

static inline Registers* registers_of(GuestState* state) {
  return (Registers*)((UChar*)(state + REGISTERS_AREA) + REGISTERS_OFFSET);
}

void threads_initialise(void);

// Whether `address` lies on the stack of the thread that now has `stack_pointer`.
Bool is_on_stack(const Thread* thread, Addr stack_pointer, Addr address);

Bool is_in_manager(ThreadId id);

// A handler is about to return: the core will set back the registers, the clock among them.
void threads_before_sigreturn(ThreadId id);

typedef struct {
  UInt thread;  // its number
  UInt site;
} Moment;

// What `id` is doing in a function of the program with the frame address `frame`, and who called.
Moment threads_moment(ThreadId id, Addr frame);

// In between, what the thread gets from the manager is a region library's own. They nest.
void threads_begin_own(ThreadId id);
void threads_end_own(ThreadId id);

// Instructions of the process so far.
ULong threads_clock(void);

// Translated code calls these with the guest state.
HELPER void enter_operation(GuestState* state, const Entry* entry);
HELPER void enter_memory_function(GuestState* state, const Entry* entry);
HELPER void leave_operation(GuestState* state, Addr next);

// The same for an object whose usable size is to be known: the first time it goes on to the
// manager's malloc_usable_size, the second time to `next`. The result is where to.
HELPER Addr ask_and_leave_operation(GuestState* state, Addr next);

// Ends what the threads still alive are in. Called once.
void threads_finish(void);

#endif
