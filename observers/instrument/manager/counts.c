// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts.h"

const HChar* const operation_names[OP_COUNT] = {"malloc", "calloc",  "realloc", "aligned",
                                                "new",    "free",    "delete",  "other",
                                                "proof",  "zeroing", "copying"};

OperationCount operation_counts[OP_COUNT + 1];
ProcessCount process_count;

void counts_reset(void) {
  VG_(memset)(operation_counts, 0, sizeof operation_counts);
  VG_(memset)(&process_count, 0, sizeof process_count);
}

static UInt bin_of(ULong value) {
  if (value < EXACT_BINS) return (UInt)value;
  const UInt power = 63 - (UInt)__builtin_clzll(value);
  const UInt fine = (UInt)(value >> (power - FINE_BITS)) & (FINE_BINS - 1);
  return EXACT_BINS + (power - EXACT_BITS) * FINE_BINS + fine;
}

ULong bin_lower_end(UInt bin) {
  if (bin < EXACT_BINS) return bin;
  const UInt power = EXACT_BITS + (bin - EXACT_BINS) / FINE_BINS;
  const ULong fine = (bin - EXACT_BINS) % FINE_BINS;
  return (FINE_BINS + fine) << (power - FINE_BITS);
}

void count_call(Operation operation, ULong instructions) {
  OperationCount* const count = &operation_counts[operation];
  if (count->calls == 0 || instructions < count->fewest) count->fewest = instructions;
  if (instructions > count->most) count->most = instructions;
  ++count->calls;
  count->instructions += instructions;
  ++count->bins[bin_of(instructions)];
}
