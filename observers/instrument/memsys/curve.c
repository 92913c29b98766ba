// SPDX-License-Identifier: GPL-2.0-or-later
#include "curve.h"

static UInt bin_of(ULong distance) {
  if (distance < EXACT_DISTANCES) return (UInt)distance;
  const UInt power = 63 - (UInt)__builtin_clzll(distance);
  const UInt bin = EXACT_DISTANCES + (power - 6) * FINE + (UInt)(distance >> (power - 5)) % FINE;
  return bin < DISTANCE_BINS ? bin : DISTANCE_BINS - 1;
}

ULong distance_bin_start(UInt bin) {
  if (bin < EXACT_DISTANCES) return bin;
  const UInt power = 6 + (bin - EXACT_DISTANCES) / FINE;
  return (ULong)(FINE + (bin - EXACT_DISTANCES) % FINE) << (power - 5);
}

Curve* curve_new(Bool of_instructions, UInt line_bytes) {
  Curve* const curve = VG_(calloc)("tare.curve", 1, sizeof *curve);
  curve->of_instructions = of_instructions;
  curve->shift = 31 - (UInt)__builtin_clz(line_bytes);
  curve->last_line = ~(ULong)0;
  distances_initialise(&curve->distances);
  for (UInt count = 0; count < SET_COUNTS; ++count) {
    const SizeT bytes = ((SizeT)WAYS << count) * sizeof(ULong);
    curve->sets[count] = VG_(malloc)("tare.curve", bytes);
    VG_(memset)(curve->sets[count], 0xff, bytes);
  }
  return curve;
}

void curve_reset_counts(Curve* curve) { VG_(memset)(curve->counts, 0, sizeof curve->counts); }

// The set of a line in a cache is a part of its set in a cache of half as many sets. So a line on
// top there is on top in all that follow, and nothing changes in them (set refinement, by which
// Hill and Smith simulate all associativities).
static void use_in_sets(Curve* curve, ULong line, CurveCounts* counts) {
  for (UInt count = 0; count < SET_COUNTS; ++count) {
    ULong* const set = curve->sets[count] + (line & (((ULong)1 << count) - 1)) * WAYS;
    if (set[0] == line) {
      ++counts->latest[count];
      return;
    }
    UInt place = 1;
    while (place < WAYS && set[place] != line) ++place;
    if (place < WAYS)
      ++counts->found[count][place];
    else
      place = WAYS - 1;
    for (; place > 0; --place) set[place] = set[place - 1];
    set[0] = line;
  }
}

ULong curve_hits(const CurveCounts* counts, UInt sets, UInt place) {
  if (place > 0) return counts->found[sets][place];
  ULong sum = 0;
  for (UInt count = 0; count <= sets; ++count) sum += counts->latest[count];
  return sum;
}

static void use_lines(Curve* curve, Addr from, Addr to, CurveCounts* counts) {
  for (ULong line = from >> curve->shift; line <= to >> curve->shift; ++line) {
    ++counts->accesses;
    if (line == curve->last_line) {
      ++counts->bins[0];
      ++counts->latest[0];
      continue;
    }
    curve->last_line = line;
    const ULong distance = distances_use(&curve->distances, line);
    if (distance == FIRST_USE)
      ++counts->first_uses;
    else
      ++counts->bins[bin_of(distance)];
    use_in_sets(curve, line, counts);
  }
}

static void use_access(Curve* curve, const Access* access, Addr from, CurveCounts* counts) {
  if ((access->flags & CONDITIONAL) && from == 0) return;
  use_lines(curve, from, from + access->size - 1, counts);
}

void curve_run(Curve* curve, const ULong* word, const ULong* end, UInt owner) {
  CurveCounts* const counts = &curve->counts[owner];
  while (word < end) {
    const BasicBlock* const block = (const BasicBlock*)*word++;
    const Access* const access = block->access;
    if (curve->of_instructions) {
      for (UInt i = 0; i < block->fetches; ++i)
        use_lines(curve, block->fetch[i].chunk, block->fetch[i].chunk, counts);
    } else {
      for (UInt i = 0; i < block->accesses; ++i)
        use_access(curve, &access[i], access_address(&access[i], word), counts);
    }
    word += block->places;
  }
}
