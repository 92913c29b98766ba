// SPDX-License-Identifier: GPL-2.0-or-later
// Code for events: places in the program whose executions are counted, and phases that begin and
// end there. description.h says how they are named.

#ifndef TARE_INSTRUMENT_EVENTS_EVENTS_H
#define TARE_INSTRUMENT_EVENTS_EVENTS_H

#include "guest/translation.h"

// Reads the file; ends the process, after a message, where it cannot be understood.
void events_read(const HChar* path);
extern Bool events_were_read;
static inline Bool events_are_on(void) { return events_were_read; }

// Code for the events at the instruction that comes next; its clock does not contain it yet.
void events_add(Translation* translation, Addr instruction);

// Code after a return, where a phase lasts until a function's.
void events_add_return(Translation* translation);

#endif
