// SPDX-License-Identifier: GPL-2.0-or-later
// Runs the stream of accesses through all models, and charges what happens to a context: an
// operation of the memory manager or the program, in a phase, called from a place.

#ifndef TARE_MEMSYS_SIMULATOR_H
#define TARE_MEMSYS_SIMULATOR_H

#include "curve.h"
#include "description.h"

// NULL, or what is wrong with the text that describes the models. The text is cut up.
const HChar* simulator_read(HChar* text);

FetchRules simulator_fetch_rules(void);

// What is to be done next: a new block is linked; calls of the operation that goes on are counted;
// accesses are run; and from then on others are charged. Operation 0 is the program, which has no
// caller.
typedef struct {
  const BasicBlock* block;  // NULL: none is new
  const ULong* word;
  const ULong* end;
  ULong phase;
  Addr caller;
  UInt operation;
  UInt calls;
} Step;
void simulator_take(const Step* step);

// Phase 0 is the work itself. Others are collections, unless the description tells which collect:
// then a phase is a set of bits, and `bit_of` gives that of a name, or 0.
void simulator_find_phases(ULong (*bit_of)(const HChar* name));

// The child of a fork: the caches stay as they are, the counts begin anew.
void simulator_reset_counts(void);

// What is simulated, and what the curves have found.
const Description* simulator_description(void);
const Curve* simulator_curve(UInt number);

#endif
