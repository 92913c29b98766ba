// SPDX-License-Identifier: GPL-2.0-or-later
// The proof of which object serves a process's malloc, as the probe of ../runner writes it. The
// probe is a 64-bit object; of a 32-bit program the tool says it itself, which sees what the
// process has loaded.

#ifndef TARE_INSTRUMENT_MANAGER_PROOF_H
#define TARE_INSTRUMENT_MANAGER_PROOF_H

#include "platform/guest.h"

enum { PROVES_MANAGER = !FOLLOWS_MEMORY };

void proof_write(void);

#endif
