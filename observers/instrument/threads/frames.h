// SPDX-License-Identifier: GPL-2.0-or-later
// What a thread is in: a stack of frames. A frame is an operation of the manager, or a signal
// handler with what it interrupted; a handler may itself allocate, and may be interrupted in turn.

#ifndef TARE_INSTRUMENT_THREADS_FRAMES_H
#define TARE_INSTRUMENT_THREADS_FRAMES_H

#include "guest/registers.h"
#include "manager/family.h"

// A call of malloc_usable_size that the program does not know of, with what it is to find as it
// was.
typedef struct {
  Bool is_open;
  ULong clock;  // the thread's, which does not count the call
  CallerSaved saved;
} Question;

typedef struct {
  const Entry* entry;  // NULL: a signal handler
  Addr stack_pointer;  // guest_call_place() of the operation, or where the handler interrupted
  Addr returns_to;
  ULong arguments[3];
  ULong resumed;       // the clock when the operation began or went on
  ULong instructions;  // before it was last interrupted
  UInt forks;          // of the process before the operation began
  UInt site;           // that called the operation
  UInt resized;        // slot of the object that a realloc is given
  ULong resized_id;
  Addr calls;  // of a handler: what sites_leave_handler() takes
  Question question;
} Frame;

typedef struct _Thread {
  ThreadId id;
  UInt number;  // from 1, in the order of their start
  Frame* frames;
  UInt used;
  UInt capacity;
  ULong clock_of_handler;  // when it returned
  UInt own;                // region libraries' calls for themselves that have not ended
} Thread;

extern UInt forks_of_process;

void frames_make_room(Thread* thread);

static inline Frame* top(const Thread* thread) {
  return thread->used > 0 ? &thread->frames[thread->used - 1] : NULL;
}

static inline Frame* push(Thread* thread) {
  if (thread->used == thread->capacity) frames_make_room(thread);
  Frame* const frame = &thread->frames[thread->used++];
  frame->entry = NULL;
  frame->instructions = 0;
  frame->forks = forks_of_process;
  frame->question.is_open = False;
  return frame;
}

// Of a thread as it stands: instructions of a question that is not answered yet do not count.
static inline ULong clock_of(const Registers* registers) {
  const Frame* const frame = top(registers->thread);
  return frame != NULL && frame->question.is_open ? frame->question.clock : registers->clock;
}

#endif
