// SPDX-License-Identifier: GPL-2.0-or-later
// The names of code in a loaded object.

#ifndef TARE_INSTRUMENT_SYMBOLS_H
#define TARE_INSTRUMENT_SYMBOLS_H

#include "core.h"

typedef void (*VisitSymbol)(const DebugInfo* info, const HChar* name, Addr address, void* context);

// Calls `visit` for each name, aliases included.
void symbols_visit(const DebugInfo* info, VisitSymbol visit, void* context);

#endif
