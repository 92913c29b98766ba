// SPDX-License-Identifier: GPL-2.0-or-later
// Where the tool's tables lie that translated code looks into: above the core's own bound
// (core/address-space.patch), which no mapping of the program takes.

#ifndef TARE_INSTRUMENT_PLATFORM_ADDRESSES_H
#define TARE_INSTRUMENT_PLATFORM_ADDRESSES_H

#include "core.h"

#define OBJECT_MAP ((Addr)0x400000000000)
#define OBJECT_USES ((Addr)0x500000000000)
#define OBJECT_SLOTS ((Addr)0x511000000000)
#define CALL_STACKS ((Addr)0x520000000000)
// From 0x555500000000 on an emulator of this processor can have its own heap.
#define EMPTY_MAP ((Addr)0x600000000000)  // for code whose uses do not count: the manager's

// The program's addresses are below 2^45. One above makes the map's reader fault, as the access to
// it will, or find some slot; there is memory for the use of each.
enum { ADDRESS_BITS = 45 };

#endif
