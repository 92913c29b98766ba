// SPDX-License-Identifier: GPL-2.0-or-later
// Files that a process leaves: named after it, whole or not there.

#ifndef TARE_INSTRUMENT_OUTPUT_FILES_H
#define TARE_INSTRUMENT_OUTPUT_FILES_H

#include "core.h"

enum { PATH_BYTES = 4096 };

// Puts into `base` the first FOLDER/PID.SERIAL for which FOLDER/PID.SERIAL.ENDING does not exist:
// one process can be several programs in turn, since exec keeps its number.
void file_claim(const HChar* folder, const HChar* ending, HChar base[PATH_BYTES]);

// A reader sees `path` as it was before, or whole. NULL, after a message, when it cannot be
// written.
VgFile* file_begin(const HChar* path);
void file_end(VgFile* file, const HChar* path);

// BASE.ENDING, until the next call.
const HChar* file_path(const HChar* base, const HChar* ending);

// A string of JSON; see json_text.h.
void file_put_text(VgFile* file, const HChar* text);

// The members "pid", "parent" and "program" of the file of this process.
void file_put_process(VgFile* file);

#endif
