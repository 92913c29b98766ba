// SPDX-License-Identifier: GPL-2.0-or-later
// The recording of a process: tables of births, deaths and marks, and a file that says what it is.
// docs/instrument.md describes them.

#ifndef TARE_INSTRUMENT_TRACE_H
#define TARE_INSTRUMENT_TRACE_H

#include "core.h"
#include "guest.h"
#include "objects.h"

typedef struct {
  const HChar* folder;  // NULL: nothing is recorded
  Bool last_use;
  Bool sites;
  Bool pointers;
  Long reachability_bytes;   // allocated between two searches; 0: none
  const HChar* usable_size;  // "glibc", "call" or "no"
} TraceOptions;

extern TraceOptions trace_options;

static inline Bool trace_is_on(void) { return FOLLOWS_MEMORY && trace_options.folder != NULL; }

// Whether the program's malloc_usable_size is called for each object.
static inline Bool trace_asks_usable_size(void) {
  return trace_is_on() && trace_options.usable_size[0] == 'c';
}

// Begins the files of this process, or of the program that it has become.
void trace_start(void);

// The number of the new object, from 1; 0 when nothing is recorded.
ULong trace_birth(const Birth* birth, ULong resized_from);

typedef enum { NOT_FREED, BY_FREE, BY_REALLOC, BY_REGION } Freeing;

// `clock` 0: alive at the end of the process.
void trace_death(const Object* object, const Use* use, ULong clock, Freeing freeing);

void trace_pointer(ULong clock, ULong source, Addr offset, ULong target);

typedef struct {
  ULong clock;
  ULong live_objects;
  ULong live_bytes;
  ULong reachable_objects;
  ULong reachable_bytes;
} Mark;

void trace_mark(const Mark* mark);

typedef struct {
  ULong number;  // from 1; 0: not of this recording
  ULong parent;
  ULong site;
  ULong created_bytes;
  ULong destroyed_bytes;  // 0: it is there
  ULong clears;
} RegionRow;

// A region is written when it is made and when it goes: the last row counts.
void trace_region(const RegionRow* row);

// Brings the files up to date, so that a kill loses nothing before now.
void trace_flush(void);

// Writes what is alive, and the description. `end`: "exit" or "exec"; after an exec that failed
// the process goes on, and so do the files.
void trace_finish(const HChar* end, ULong clock);

// In the child of a fork: files of its own, and births from 1 again.
void trace_start_child(void);

#endif
