// SPDX-License-Identifier: GPL-2.0-or-later
// What translated code reads and writes of the thread that it runs in. It lies in the thread's
// first shadow register area, which the core keeps per thread and which no other tool code uses
// here: no saving at switches, and an access is one instruction relative to the register that
// points to the guest state.

#ifndef TARE_INSTRUMENT_GUEST_REGISTERS_H
#define TARE_INSTRUMENT_GUEST_REGISTERS_H

#include "platform/addresses.h"
#include "platform/guest.h"

#define NEVER (~(Addr)0)  // a bound that no stack pointer is above

typedef struct {
  ULong clock;            // instructions of the process; right while the thread runs
  Addr leaves_above;      // a return with a stack pointer above this ends the operation
  Addr inside;            // 1 in an operation of the manager, else 0
  Addr map;               // where code that uses memory looks for objects: OBJECT_MAP or EMPTY_MAP
  Addr calls;             // sites/: behind the last note of a call
  Addr calls_end;         // from where on the notes must be made fewer
  Addr phase_ends_above;  // events/: a return with a stack pointer above this ends a phase
  Addr counters;          // executions/: of the context that the thread is in
  ULong frees_since;      // objects/teardown.h: from when on uses belong to the burst of frees
  ULong frees_until;      // and until when it goes on; 0: there is none
  ULong frees;            // so many of them
  Addr leads_to;          // what the last call by call_for_place_if() gave
  ULong thread_id;
  struct _Thread* thread;  // threads/frames.h
} Registers;

enum {
  REGISTERS_OFFSET = offsetof(GuestState, GUEST_RESULT),
  REGISTERS_AREA = 1,
};

static inline Registers* registers_of(GuestState* state) {
  return (Registers*)((UChar*)(state + REGISTERS_AREA) + REGISTERS_OFFSET);
}

// Of a thread that does not run.
Registers load_registers(ThreadId id);
Addr load_result(ThreadId id);
void store_registers(ThreadId id, const Registers* registers);

#endif
