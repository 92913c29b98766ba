// SPDX-License-Identifier: GPL-2.0-or-later
// The files with how often each instruction of a process was executed, and in which context.
//
// PID.SERIAL.json:
//   format, version                "tare-code", 2
//   pid, parent, program, end      as in counts_file.h
//   instructions                   the clock at the end: what all counts sum to
//   objects                        for each file that code came from its `file` and its `bias`, by
//                                  which addresses in the process are larger than in the file; the
//                                  first is for code of no file
//   contexts                       `phases`, a list of names, and `operation`, or ""
//   operations                     as in counts_file.h
//
// Two tables:
//   code        an instruction of a stretch, in order: stretch, object, address in the process,
//               length, and the first 16 bytes as two numbers, low and high
//   executions  a stretch in a context: stretch (0: instructions, not executions, of those beyond
//               the most), context, count

#ifndef TARE_INSTRUMENT_REPORTS_CODE_FILE_H
#define TARE_INSTRUMENT_REPORTS_CODE_FILE_H

#include "core.h"

// Writes, or writes again, this process's files in `folder`.
void code_file_write(const HChar* folder, const HChar* end, ULong clock);

// In the child of a fork: the files are the parent's.
void code_file_forget(void);

#endif
