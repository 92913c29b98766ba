// SPDX-License-Identifier: GPL-2.0-or-later
// How often each instruction was executed, told apart by its address and its bytes, so that code
// which moves or is generated has a count of its own; and in which phases, in which operation.
//
// What is counted are stretches: instructions that follow one another, up to where a block may be
// left or what it does is charged to something else. A stretch is counted where the clock is
// brought up to date for its instructions, so the counts sum to the clock, exactly.

#ifndef TARE_INSTRUMENT_EXECUTIONS_H
#define TARE_INSTRUMENT_EXECUTIONS_H

#include "core.h"
#include "counts.h"
#include "translation.h"

// False: nothing is counted, and nothing below but executions_begin() may be called.
extern Bool executions_were_asked;
static inline Bool executions_are_on(void) { return executions_were_asked; }
void executions_begin(void);

// An instruction of the block that is being translated, which is not in its clock yet.
void executions_add_instruction(Translation* translation, Addr address, UInt bytes);

// Code that counts the instructions since the last time.
void executions_add_stretch(Translation* translation);

// Where what is executed from now on is counted: in these phases, bits of the numbers of their
// names, and in this operation, or OP_COUNT for none.
Addr executions_counters(ULong phases, UInt operation);

// Writes, or writes again, this process's files in `folder`.
void executions_write(const HChar* folder, const HChar* end, ULong clock);

// In the child of a fork: its counts start, and the files are the parent's.
void executions_start_child(void);

#endif
