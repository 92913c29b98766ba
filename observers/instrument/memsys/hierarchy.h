// SPDX-License-Identifier: GPL-2.0-or-later
// Models without a write buffer.

#ifndef TARE_MEMSYS_HIERARCHY_H
#define TARE_MEMSYS_HIERARCHY_H

#include "model.h"

// Runs the stream from `word` up to `end` through the model, adding to `counts`. Returns the sum of
// the totals of its basic blocks.
ULong hierarchy_run(Model* model, const ULong* word, const ULong* end, Counts* counts);

// Whether a fetch and a data access can change what the other finds at the first level, or a write
// is more than a use of its line.
Bool hierarchy_order_matters(const Model* model);

#endif
