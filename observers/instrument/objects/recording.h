// SPDX-License-Identifier: GPL-2.0-or-later
// The recording of a process: tables of births, deaths and marks, and a file that says what it is.
//
// PID.SERIAL.json describes a program that a process ran. It is written when the program starts,
// with "end": "running" and zeros, and again when it ends; one that still says so was killed.
//
//   format, version                   "tare-recording", 1
//   valgrind, pid, parent, program    as in reports/counts_file.h
//   end                               "running", "exit" (by a signal, too) or "exec"
//   instructions, allocated_bytes     the two clocks at the end; the probe's are in the first
//   objects                           rows of births
//   threads, unknown_frees, inherited_frees          as in ProcessCount
//   last_use, sites, pointers, reachability_bytes, usable_size    what was asked for
//
// Tables, as in output/table.h; 0 is "none", "never" or "not known" in all of them:
//
//   births    an object; the number of the row, from 1, is its id. instructions, bytes (with this
//             object), size, usable_size, alignment, operation (malloc, calloc, realloc, aligned,
//             new, region, from 0), thread, site, resized_from, region
//   deaths    an object that ended, or was alive at the end. id, first_use, last_use,
//             before_teardown (the last use before teardown; 1: there was none, 0: no teardown),
//             unreachable_instructions, unreachable_bytes, free_instructions, free_bytes,
//             free_thread, free_site, free_operation (1: free, 2: realloc, 3: the end of a region),
//             touched. After an exec that failed an object may have several: the last counts
//   pointers  a store of a pointer: instructions, source (an id; 0: no object), offset (in the
//             source, or an address), target (an id; 0: a pointer was overwritten)
//   marks     a search: instructions, bytes, live_objects, live_bytes, reachable_objects,
//             reachable_bytes
//   regions   a region that was made, or went, or was there at the end; the last row of each
//             counts: region, parent, site, created_bytes, destroyed_bytes, clears
//
// and those of sites/site_files.h and sites/costs.h. Births are in order of time, deaths are not.
// The graph of pointers at a moment is what the rows up to it leave: the last row of each place,
// between objects that are alive. A realloc takes what an object holds along, without rows.

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
