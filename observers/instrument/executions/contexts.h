// SPDX-License-Identifier: GPL-2.0-or-later
// The contexts in which executions are counted, each with counters of its own: the phases that a
// thread is in, and the operation of the manager.

#ifndef TARE_INSTRUMENT_EXECUTIONS_CONTEXTS_H
#define TARE_INSTRUMENT_EXECUTIONS_CONTEXTS_H

#include "core.h"

enum {
  MOST_STRETCHES = 1 << 21,  // of one process; its further code is counted without being told apart
  PHASE_BITS = 64,
};

// False: nothing is counted, and nothing below but contexts_begin() may be called.
extern Bool executions_were_asked;
static inline Bool executions_are_on(void) { return executions_were_asked; }
void contexts_begin(void);

typedef struct {
  ULong phases;     // bits of the numbers of their names
  UInt operation;   // or OP_COUNT for none
  ULong* counters;  // by the number of the stretch
} Context;

// Where what is executed from now on is counted.
Addr executions_counters(ULong phases, UInt operation);

UInt contexts_used(void);
const Context* context_of(UInt number);

// All counts, of stretches below that number, start anew.
void contexts_reset(UInt stretches);

#endif
