// SPDX-License-Identifier: GPL-2.0-or-later
// Where the events are in the objects that are loaded.

#ifndef TARE_INSTRUMENT_EVENTS_PLACES_H
#define TARE_INSTRUMENT_EVENTS_PLACES_H

#include "core.h"
#include "pub_tool_xarray.h"

// After the events have been read.
void places_initialise(void);

// Looks for the places of events in an object that has been loaded, or gone.
void places_follow_loading(const DebugInfo* info);
void places_forget(Addr start, SizeT bytes);

// The numbers of the events at `instruction`, of UInt; NULL: none.
XArray* events_at(Addr instruction);

#endif
