// SPDX-License-Identifier: GPL-2.0-or-later
// The names of events and phases, and what is counted for each.

#ifndef TARE_INSTRUMENT_EVENTS_NAMES_H
#define TARE_INSTRUMENT_EVENTS_NAMES_H

#include "manager/counts.h"

enum { MOST_NAMES = 1024, EVENT_NAME_BYTES = 64 };

typedef struct {
  HChar text[EVENT_NAME_BYTES];
  Bool is_phase;
  ULong times;
  ULong instructions[OP_COUNT + 1];  // of a phase, by the operation they were part of
} Name;

extern Name event_names[MOST_NAMES];

// A name's number; MOST_NAMES where there are too many, or it is too long.
UInt name_number(const HChar* text, Bool is_phase);

UInt names_used(void);

// In the child of a fork: its counts start.
void names_start_child(void);

// The members "events" and "phases" of the file of a process.
void names_write(VgFile* file);

#endif
