// SPDX-License-Identifier: GPL-2.0-or-later
// Models of one level over a write buffer.

#ifndef TARE_MEMSYS_BUFFERED_H
#define TARE_MEMSYS_BUFFERED_H

#include "model.h"

// Whether the lines of the cache of instructions must be numbered before it runs.
Bool buffered_numbers_lines(const Model* model);

// As hierarchy_run().
ULong buffered_run(Model* model, const ULong* word, const ULong* end, Counts* counts);

#endif
