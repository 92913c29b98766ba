// SPDX-License-Identifier: GPL-2.0-or-later
// Events: places in the program whose executions are counted, and phases that begin and end there.
//
// A file has a line for each, of three words; # begins a comment:
//
//   count NAME PLACE    how often the instruction at PLACE is executed
//   begin PHASE PLACE   the thread is in PHASE from here on
//   end PHASE PLACE     and no longer
//   during PHASE PLACE  it is in PHASE from this function's first instruction to its return
//
// PLACE is SYMBOL, SYMBOL+OFFSET, OBJECT!SYMBOL+OFFSET, OBJECT!+ADDRESS (as in the object's file)
// or ADDRESS (in the process). Numbers are decimal, or hexadecimal after 0x. OBJECT is the end of a
// path. Several lines may have one name. Phases nest: the instructions of a thread count for the
// phase that began last.

#ifndef TARE_INSTRUMENT_EVENTS_H
#define TARE_INSTRUMENT_EVENTS_H

#include "core.h"
#include "counts.h"
#include "threads.h"
#include "translation.h"

// Reads the file; ends the process, after a message, where it cannot be understood.
void events_read(const HChar* path);
extern Bool events_were_read;
static inline Bool events_are_on(void) { return events_were_read; }

// Looks for the places of events in an object that has been loaded, or gone.
void events_follow_loading(const DebugInfo* info);
void events_forget(Addr start, SizeT bytes);

// Code for the events at the instruction that comes next; its clock does not contain it yet.
void events_add(Translation* translation, Addr instruction);

// Code after a return, where a phase lasts until a function's.
void events_add_return(Translation* translation);

// The thread's clock goes on from another value; or what it does is another operation from now on.
void events_shift_clock(ThreadId thread, ULong difference);
void events_note_operation(Registers* registers, Operation operation);

// What the thread is in: the number of the innermost phase from 1, or 0 for none. Where executions
// are counted, all its phases, as bits of the numbers of their names.
ULong events_phase(ThreadId thread);

// A phase or phases as a value of JSON: a name, or where executions are counted a list of them.
void events_put_phase(VgFile* file, ULong phase);

// The bit of a phase with that name where executions are counted; 0: there is none.
ULong events_phase_bit(const HChar* name);

void events_end_thread(ThreadId thread, ULong clock);
void events_start_child(ThreadId thread);

// The members "events" and "phases" of the file of a process.
void events_write(VgFile* file);

#endif
