// SPDX-License-Identifier: GPL-2.0-or-later
// The kernel: what its calls do to the program, and what the tool asks of it.

#ifndef TARE_INSTRUMENT_PLATFORM_LINUX_H
#define TARE_INSTRUMENT_PLATFORM_LINUX_H

#include "core.h"

enum { MAP_NEVER_REPLACING = 0x100000 };  // mmap(2)

// Memory at `start` of which the core's manager of addresses does not hear. False: refused.
Bool map_at(Addr start, SizeT bytes, UInt flags, Int file);

// A file of that size which is memory only, or -1.
Int open_memory(SizeT bytes);

Bool ends_handler(UInt syscall);
Bool starts_program(UInt syscall);

typedef struct {
  Addr start;
  SizeT bytes;  // 0: none
  Bool is_gone;
} Mapping;

// What a call that succeeded with `result` has mapped, or no longer has.
Mapping mapping_of(UInt syscall, const UWord* arguments, Addr result);

// What a call makes a guard of: part of a mapping that can be read, but must not be, as in stacks
// of glibc 2.42. Other threads run during the call, and after it until the tool hears of its end.
Mapping guard_of(UInt syscall, const UWord* arguments);

// After a call that asked for the auxiliary vector of its process, which has the tool's: the
// program gets its own in that place, as in /proc/self/auxv.
void give_auxiliary_vector(UInt syscall, const UWord* arguments, SysRes result);

#endif
