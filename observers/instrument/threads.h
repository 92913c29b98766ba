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

typedef struct _Thread Thread;

typedef struct {
  ULong instructions;  // that the thread has executed
  Addr leaves_above;   // a return with a stack pointer above this ends the operation
  ULong inside;        // 1 in an operation of the manager, else 0
  Thread* thread;
} Registers;

enum {
  REGISTERS_OFFSET = offsetof(VexGuestAMD64State, guest_RAX),
  REGISTERS_AREA = 1,
};

void threads_initialise(void);

// Translated code calls these with the guest state.
VG_REGPARM(2) void enter_operation(VexGuestAMD64State* state, const Entry* entry);
VG_REGPARM(2) void leave_operation(VexGuestAMD64State* state, Addr next);

// Adds up what the threads still alive have executed, and ends what they are in. Called once.
void threads_finish(void);

// What a file that is written before the end must add to process_count.instructions.
ULong instructions_of_living_threads(void);

#endif
