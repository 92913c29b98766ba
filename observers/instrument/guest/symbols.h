// SPDX-License-Identifier: GPL-2.0-or-later
// The names of code in a loaded object.

#ifndef TARE_INSTRUMENT_GUEST_SYMBOLS_H
#define TARE_INSTRUMENT_GUEST_SYMBOLS_H

#include "core.h"

// `is_resolver`: the address is not the function's own, but of one that gives it.
typedef void (*VisitSymbol)(const DebugInfo* info, const HChar* name, Addr address,
                            Bool is_resolver, void* context);

// Calls `visit` for each name, aliases included.
void symbols_visit(const DebugInfo* info, VisitSymbol visit, void* context);

#endif
