// SPDX-License-Identifier: GPL-2.0-or-later
// The tree of call sites that objects refer to: a site is a call instruction and the site that
// called its function.

#ifndef TARE_INSTRUMENT_SITES_TREE_H
#define TARE_INSTRUMENT_SITES_TREE_H

#include "core.h"

void tree_initialise(void);

// The number of the call instruction at `address`, as far as it is in the object of now.
UInt call_number(Addr address);

// The site of the call with that number in a function that `caller` called; 0 is the root. Written
// to the files where it is new.
UInt tree_child(UInt caller, UInt call);

// In the child of a fork: a tree of its own.
void tree_start_child(void);

#endif
