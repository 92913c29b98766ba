// SPDX-License-Identifier: GPL-2.0-or-later
// The file with what the simulation of a process found: one JSON object.
//
//   format, version       "tare-memsys", 1
//   valgrind … end        as in counts_file.h
//   models                their names
//   contexts              one for each operation ("program" outside of all), phase (a list of all
//                         that nest where executions are counted) and caller: calls, instructions,
//                         reads, writes, and in `models` a row of numbers for each model: misses of
//                         fetches at levels 1 to 3, of reads, of writes; TLB misses of fetches,
//                         reads, writes; cycles of waiting for the write buffer (Counts of model.h)
//   collections, before_collections, after_collections
//                         their number, and the program's events around them
//   curves                by owner: accesses, first_uses, distances (pairs of the lower end of a
//                         bin and the uses in it), places (for 1, 2, 4 and so on sets: hits by
//                         place in the set)
//
// Where instructions are charged, the table `stalls` has a row for each context (its place in
// `contexts`), model, instruction (address in the process, length) and event (the place in a row of
// numbers) with a count. An instruction is charged with a fetch where it is the first in its line
// that a stretch of code comes to.

#ifndef TARE_INSTRUMENT_REPORTS_MEMSYS_FILE_H
#define TARE_INSTRUMENT_REPORTS_MEMSYS_FILE_H

#include "core.h"

// Writes, or writes again, this process's file in `folder`.
void memsys_file_write(const HChar* folder, const HChar* end);

// In the child of a fork: the file is the parent's.
void memsys_file_forget(void);

#endif
