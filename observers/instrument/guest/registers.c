// SPDX-License-Identifier: GPL-2.0-or-later
#include "registers.h"

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
