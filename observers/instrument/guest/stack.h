// SPDX-License-Identifier: GPL-2.0-or-later
// The stacks of a thread: its own, and the one that it may have named for signals.

#ifndef TARE_INSTRUMENT_GUEST_STACK_H
#define TARE_INSTRUMENT_GUEST_STACK_H

#include "core.h"

Bool is_on_signal_stack(ThreadId id, Addr address);

// Whether `address` lies on a stack of the thread, which now has `stack_pointer`.
Bool is_on_stack(ThreadId id, Addr stack_pointer, Addr address);

#endif
