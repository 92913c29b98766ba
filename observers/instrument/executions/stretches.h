// SPDX-License-Identifier: GPL-2.0-or-later
// How often each instruction was executed, distinguished by its address and its bytes, so that code
// which moves or is generated has a count of its own.
//
// What is counted are stretches: instructions that follow one another, up to where a block may be
// left or what it does is charged to something else. A stretch is counted where the clock is
// brought up to date for its instructions, so the counts sum to the clock, exactly.

#ifndef TARE_INSTRUMENT_EXECUTIONS_STRETCHES_H
#define TARE_INSTRUMENT_EXECUTIONS_STRETCHES_H

#include "contexts.h"
#include "guest/translation.h"

enum { REST = 0 };  // stands for the stretches beyond the most: its count is of instructions

typedef struct _Stretch {
  struct _Stretch* next;
  UWord address;
  UInt number;
  UInt object;
  UInt bytes;
  UInt instructions;
  UChar content[];  // the length of each instruction, then all bytes
} Stretch;

typedef struct {
  HChar* file;
  Addr bias;  // from addresses in the file to those in the process
} CodeObject;

void executions_begin(void);

// Of the block that is being translated: whether the instruction can go on the stretch, and that it
// does.
Bool executions_have_room(Addr address, UInt bytes);
void executions_add_instruction(Addr address, UInt bytes);

// Code that counts the instructions since the last time.
void executions_add_stretch(Translation* translation);

// In the child of a fork: its counts start.
void executions_start_child(void);

// By number, the first is no object.
UInt code_objects_used(void);
const CodeObject* code_object(UInt number);

// In the order in which the program came to them.
void stretches_visit(void (*visit)(void* to, const Stretch* stretch), void* to);

#endif
