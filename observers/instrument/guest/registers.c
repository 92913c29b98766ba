// SPDX-License-Identifier: GPL-2.0-or-later
#include "registers.h"

#if defined(TARE_PINNED_CORE) && defined(VGA_amd64)
#include "clock_offset.h"
_Static_assert(TARE_CLOCK == REGISTERS_AREA * sizeof(GuestState) + REGISTERS_OFFSET +
                                 offsetof(Registers, clock),
               "the core keeps the clock elsewhere");
#endif

Registers load_registers(ThreadId id) {
  Registers registers;
  VG_(get_shadow_regs_area)
  (id, (UChar*)&registers, REGISTERS_AREA, REGISTERS_OFFSET, sizeof registers);
  return registers;
}

Addr load_result(ThreadId id) {
  Addr result;
  VG_(get_shadow_regs_area)(id, (UChar*)&result, 0, REGISTERS_OFFSET, sizeof result);
  return result;
}

void store_registers(ThreadId id, const Registers* registers) {
  VG_(set_shadow_regs_area)
  (id, REGISTERS_AREA, REGISTERS_OFFSET, sizeof *registers, (const UChar*)registers);
}
