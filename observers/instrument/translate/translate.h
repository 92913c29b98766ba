// SPDX-License-Identifier: GPL-2.0-or-later
// Turns a block of the program into one that is also watched.

#ifndef TARE_INSTRUMENT_TRANSLATE_TRANSLATE_H
#define TARE_INSTRUMENT_TRANSLATE_TRANSLATE_H

#include "core.h"

IRSB* translate(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                IRType host_word);

// The core asks it of each address to which a block might go on (core/block-boundaries.patch).
Bool tare_begins_block(Addr address);

#endif
