// SPDX-License-Identifier: GPL-2.0-or-later
// A second process that shares all memory with this one.

#ifndef TARE_INSTRUMENT_PLATFORM_PROCESS_H
#define TARE_INSTRUMENT_PLATFORM_PROCESS_H

#include "core.h"

// Runs `work` on the stack that ends there, with all signals blocked. No wait of the program finds
// it. -1: refused.
Int start_process(Word (*work)(void*), void* stack_end);

Bool process_has_ended(Int process);
void await_process(Int process);

// Of who calls.
Int parent_process(void);
void exit_process(void);

// That this one may run on.
UInt processors(void);

// While `*word` is `value`, until a wake. False: for so long.
Bool futex_wait(void* word, UInt value, UInt milliseconds);
void futex_wake(void* word);

#endif
