// SPDX-License-Identifier: GPL-2.0-or-later
// What is counted of each operation of the memory manager by call site: what counts.h counts of it
// in all, distinguished by the call that led to it.
//
// The table `costs` has a row for each site (0: no call is known) and operation (a number of
// Operation), of processes that ended by themselves: site, operation, calls, instructions, bytes.

#ifndef TARE_INSTRUMENT_SITES_COSTS_H
#define TARE_INSTRUMENT_SITES_COSTS_H

#include "manager/counts.h"
#include "platform/guest.h"

// False: nothing is distinguished, and nothing below but costs_begin() may be called.
extern Bool costs_were_asked;
static inline Bool costs_are_on(void) { return FOLLOWS_MEMORY && costs_were_asked; }

// Begins the counts of this process, in the child of a fork, too; `base` is what the names of its
// files begin with, those of its sites among them.
void costs_begin(const HChar* base);

void costs_count_call(UInt site, Operation operation, ULong instructions);
void costs_count_bytes(UInt site, Operation operation, ULong bytes);

// Writes, or writes again, what was counted so far.
void costs_write(void);

#endif
