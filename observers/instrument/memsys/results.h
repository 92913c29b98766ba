// SPDX-License-Identifier: GPL-2.0-or-later
// What a simulation has found, written down.

#ifndef TARE_MEMSYS_RESULTS_H
#define TARE_MEMSYS_RESULTS_H

#include "core.h"

// How operations, phases and callers are written down: a name, a value of JSON, and members of an
// object of JSON.
typedef struct {
  const HChar* (*operation)(UInt operation);
  void (*phase)(VgFile* file, ULong phase);
  void (*caller)(VgFile* file, Addr caller);
} Describer;

// Members of a JSON object: "models", "contexts", "windows", "curves".
void results_write(VgFile* file, const Describer* describer);

// After that: what happened at instructions, as rows of the number of the context among those that
// were written, model, address, bytes of the instruction, place in a row of counts, and how often.
enum { OCCURRENCE_COLUMNS = 6 };
void results_visit_occurrences(void (*visit)(void* to, const ULong* row), void* to);

#endif
