// SPDX-License-Identifier: GPL-2.0-or-later
#include "clock.h"

#include "guest/registers.h"
#include "stretches.h"

void bring_up_to_date(Translation* translation) {
  if (translation->counted == translation->stored) return;
  if (executions_are_on()) executions_add_stretch(translation);
  IRExpr* const after =
      binary(translation, Iop_Add64, clock_before(translation), number(translation->counted));
  put_register(translation, offsetof(Registers, clock), after);
  translation->stored = translation->counted;
}

void count_instruction(Translation* translation, Addr address, UInt bytes) {
  if (executions_are_on()) {
    if (!executions_have_room(address, bytes)) bring_up_to_date(translation);
    executions_add_instruction(address, bytes);
  }
  ++translation->counted;
}
