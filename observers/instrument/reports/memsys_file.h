// SPDX-License-Identifier: GPL-2.0-or-later
// The file with what the simulation of a process found: one JSON object, documented in
// docs/memsys.md.

#ifndef TARE_INSTRUMENT_REPORTS_MEMSYS_FILE_H
#define TARE_INSTRUMENT_REPORTS_MEMSYS_FILE_H

#include "core.h"

// Writes, or writes again, this process's file in `folder`.
void memsys_file_write(const HChar* folder, const HChar* end);

// In the child of a fork: the file is the parent's.
void memsys_file_forget(void);

#endif
