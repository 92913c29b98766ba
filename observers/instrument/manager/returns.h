// SPDX-License-Identifier: GPL-2.0-or-later
// Where operations return to: at these addresses alone code looks whether one has ended.

#ifndef TARE_INSTRUMENT_MANAGER_RETURNS_H
#define TARE_INSTRUMENT_MANAGER_RETURNS_H

#include "core.h"

void returns_initialise(void);

// An operation that begins now returns to `address`. Blocks there are translated again, if need be.
void returns_add(Addr address);

Bool may_be_returned_to(Addr address);

#endif
