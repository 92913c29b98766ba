// SPDX-License-Identifier: GPL-2.0-or-later
// What the command line asks for.

#ifndef TARE_INSTRUMENT_OPTIONS_H
#define TARE_INSTRUMENT_OPTIONS_H

#include "objects/recording.h"

typedef struct {
  const HChar* count_folder;
  Bool count_sites;
  const HChar* memsys_models;
  const HChar* memsys_folder;
  const HChar* events_file;
  const HChar* code_folder;
  RecordingOptions recording;
} Options;

extern Options options;

void options_initialise(void);

// After all have been read: ends the process, with a message, where they cannot be met.
void options_check(void);

#endif
