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

#ifndef TARE_INSTRUMENT_EVENTS_DESCRIPTION_H
#define TARE_INSTRUMENT_EVENTS_DESCRIPTION_H

#include "core.h"

typedef enum { COUNT, BEGIN, END, DURING } Effect;

typedef struct {
  Effect effect;
  UInt name;
  HChar* object;  // NULL: any
  HChar* symbol;  // NULL: the offset is an address
  Addr offset;
} Event;

// Reads the file; ends the process, after a message, where it cannot be understood.
void description_of_events(const HChar* path);

UInt events_described(void);
const Event* event_of(UInt number);  // stays where it is

#endif
