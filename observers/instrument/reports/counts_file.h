// SPDX-License-Identifier: GPL-2.0-or-later
// The file with the counts of a process: one JSON object, documented in docs/instrument.md.

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
