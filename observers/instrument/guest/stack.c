// SPDX-License-Identifier: GPL-2.0-or-later
#include "stack.h"

#include "platform/guest.h"

Bool is_on_signal_stack(ThreadId id, Addr address) {
  return address - VG_(thread_get_altstack_min)(id) < VG_(thread_get_altstack_size)(id);
}

Bool is_on_stack(ThreadId id, Addr stack_pointer, Addr address) {
  return (address >= stack_pointer - RED_ZONE && address <= VG_(thread_get_stack_max)(id)) ||
         is_on_signal_stack(id, address);
}
