// SPDX-License-Identifier: GPL-2.0-or-later
// The file with what the simulation of a process found: one JSON object, documented in
// docs/memsys.md.

#ifndef TARE_MEMSYS_OUTPUT_H
#define TARE_MEMSYS_OUTPUT_H

#include "core.h"

// Writes, or writes again, this process's file in `folder`.
void output_write(const HChar* folder, const HChar* end);

// In the child of a fork: the file is the parent's.
void output_forget_file(void);

#endif
