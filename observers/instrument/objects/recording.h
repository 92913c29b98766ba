// SPDX-License-Identifier: GPL-2.0-or-later
// The recording of a process: tables of births, deaths and marks, and a file that says what it is.
// docs/instrument.md describes them.

#ifndef TARE_INSTRUMENT_OBJECTS_RECORDING_H
#define TARE_INSTRUMENT_OBJECTS_RECORDING_H

#include "death.h"
#include "manager/counts.h"
#include "map.h"
#include "platform/guest.h"

typedef struct {
  const HChar* folder;  // NULL: nothing is recorded
  Bool last_use;
  Bool sites;
  Bool pointers;
  Long reachability_bytes;   // allocated between two searches; 0: none
  const HChar* usable_size;  // "glibc", "call" or "no"
} RecordingOptions;

extern RecordingOptions recording_options;

static inline Bool recording_is_on(void) {
  return FOLLOWS_MEMORY && recording_options.folder != NULL;
}

// Whether the program's malloc_usable_size is called for each object.
static inline Bool recording_asks_usable_size(void) {
  return recording_is_on() && recording_options.usable_size[0] == 'c';
}

// Begins the files of this process, if there are to be any.
void recording_start(const RecordingOptions* options);

enum { BORN_IN_REGION = OP_NEW + 1 };

typedef struct {
  Addr address;
  SizeT size;
  SizeT usable_size;  // 0: not known
  SizeT alignment;    // asked for; 0: none
  UInt operation;     // one that gives objects, or BORN_IN_REGION
  ULong clock;
  UInt thread;
  UInt site;
  UInt region;  // of the recording; 0: none
} Birth;

// The number of the new object, from 1; 0 when nothing is recorded.
ULong recording_add_birth(const Birth* birth, ULong resized_from);

// Of the object in `slot`.
void recording_add_death(UInt slot, const Death* death);

void recording_add_pointer(ULong clock, ULong source, Addr offset, ULong target);

typedef struct {
  ULong clock;
  ULong live_objects;
  ULong live_bytes;
  ULong reachable_objects;
  ULong reachable_bytes;
} Search;

void recording_add_search(const Search* search);

typedef struct {
  ULong number;  // from 1; 0: not of this recording
  ULong parent;
  ULong site;
  ULong created_bytes;
  ULong destroyed_bytes;  // 0: it is there
  ULong clears;
} RegionRow;

// A region is written when it is made and when it goes: the last row counts.
void recording_add_region(const RegionRow* row);

// Writes the description. `end`: "exit" or "exec"; after an exec that failed the process goes on,
// and so do the files.
void recording_finish(const HChar* end, ULong clock);

// In the child of a fork: files of its own, and births from 1 again.
void recording_start_child(void);

#endif
