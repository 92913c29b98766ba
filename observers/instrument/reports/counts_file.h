// SPDX-License-Identifier: GPL-2.0-or-later
// The file with the counts of a process: one JSON object, written at the end of the process, at its
// exec, and when a signal ends it.
//
//   format, version       "tare-count", 1
//   valgrind              the version of the core
//   pid, parent, program  the process, its parent, and the program it ran
//   end                   "exit", or "exec" when another program took the process over
//   instructions          of all threads, without those of the probe: proof_instructions
//   objects, … signals    as in ProcessCount of manager/counts.h; bytes are those asked for
//   events, phases        as names_write() writes them
//   operations            by name, as in OperationCount; `histogram` is a list of pairs: the lower
//                         end of a bin, and the calls in it
//
// With call sites the tables of sites/site_files.h and sites/costs.h stand beside it.

#ifndef TARE_INSTRUMENT_REPORTS_COUNTS_FILE_H
#define TARE_INSTRUMENT_REPORTS_COUNTS_FILE_H

#include "core.h"

// Writes, or writes again, this process's file in `folder`. A reader sees a whole file or none.
// `clock` is what threads_clock() gave.
void counts_file_write(const HChar* folder, const HChar* end, ULong clock);

// The member "operations" of the file of a process.
void put_operations(VgFile* file);

// What the names of this process's files in `folder` begin with.
const HChar* counts_file_base(const HChar* folder);

// In the child of a fork: the files are the parent's.
void counts_file_forget(void);

#endif
