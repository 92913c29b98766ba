// SPDX-License-Identifier: GPL-2.0-or-later
// The numbers of the chunks of code that are fetched: equal parts of all lines that the models
// have.

#ifndef TARE_MEMSYS_CHUNKS_H
#define TARE_MEMSYS_CHUNKS_H

#include "core.h"

// Which fetches the models need to see.
typedef struct {
  UInt chunk_bytes;         // fetches within an aligned chunk are one
  UInt unit_bytes;          // the numbers of the chunks in such a unit follow each other
  Bool again_after_access;  // unless data was used between them
  Bool knows_instructions;  // a block knows where its instructions are
} FetchRules;

// Never 0.
UInt chunk_number(Addr chunk, const FetchRules* rules);

// All numbers so far are below.
UInt chunk_numbers(void);

#endif
