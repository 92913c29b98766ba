// SPDX-License-Identifier: GPL-2.0-or-later
#include "clock.h"

#include "guest/registers.h"
#include "stretches.h"

void add_to_clock(Translation* translation, IRExpr* instructions) {
  const SizeT clock = offsetof(Registers, clock);
  IRExpr* const now = get_register(translation, clock);
  put_register(translation, clock, binary(translation, Iop_Add64, now, instructions));
}

void bring_up_to_date(Translation* translation) {
  if (executions_are_on()) executions_add_stretch(translation);
  if (translation->counted == translation->stored) return;
  add_to_clock(translation, number(translation->counted - translation->stored));
  translation->stored = translation->counted;
}

void count_instruction(Translation* translation, Addr address, UInt bytes) {
  if (executions_are_on()) {
    if (!executions_have_room(address, bytes)) bring_up_to_date(translation);
    executions_add_instruction(address, bytes);
  }
  ++translation->counted;
}
