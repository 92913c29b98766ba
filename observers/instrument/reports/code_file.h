// SPDX-License-Identifier: GPL-2.0-or-later
// The files with how often each instruction of a process was executed, and in which context.
// docs/instrument.md describes them.

#ifndef TARE_INSTRUMENT_REPORTS_CODE_FILE_H
#define TARE_INSTRUMENT_REPORTS_CODE_FILE_H

#include "core.h"

// Writes, or writes again, this process's files in `folder`.
void code_file_write(const HChar* folder, const HChar* end, ULong clock);

// In the child of a fork: the files are the parent's.
void code_file_forget(void);

#endif
