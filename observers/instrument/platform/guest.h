// SPDX-License-Identifier: GPL-2.0-or-later
// The processor of the program: its registers, its calls, its code. Each has a file with the same
// names; what else differs stands nowhere else.
//
// The tool for 32-bit programs counts instructions, in phases and operations; it follows no objects
// and no accesses to memory, whose maps need more addresses than 32 bits have. What stands behind a
// constant that is False is not compiled, and its files are not linked.

#ifndef TARE_INSTRUMENT_PLATFORM_GUEST_H
#define TARE_INSTRUMENT_PLATFORM_GUEST_H

#if defined(VGA_amd64)
#include "amd64.h"
#elif defined(VGA_arm64)
#include "arm64.h"
#else
#include "x86.h"
#endif

// Where the call that has just been made stands: a return from it leaves the stack pointer above.
static inline Addr guest_call_place(const GuestState* state) {
  return state->GUEST_STACK_POINTER - CALL_PLACE;
}

#endif
