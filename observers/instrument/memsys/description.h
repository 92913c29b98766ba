// SPDX-License-Identifier: GPL-2.0-or-later
// What is to be simulated, from text.

#ifndef TARE_MEMSYS_DESCRIPTION_H
#define TARE_MEMSYS_DESCRIPTION_H

#include "model.h"

enum { MOST_MODELS = 16, MOST_CURVES = 4, MOST_PHASES = 64 };

typedef struct {
  Bool of_instructions;
  UInt line_bytes;
} CurveDescription;

typedef struct {
  const HChar* name[MOST_PHASES];
  UInt used;
} PhaseNames;

typedef struct {
  Model models[MOST_MODELS];
  UInt models_used;
  CurveDescription curves[MOST_CURVES];
  UInt curves_used;
  ULong window_instructions;  // before and after a collection that are looked at
  // What a collection is, where not each phase is one: it begins with one of the phases that
  // collect, and ends when no phase of the collector lasts.
  PhaseNames collecting;
  PhaseNames collector;
  Bool charges_instructions;  // outside of collections and of operations
} Description;

// NULL, or what is wrong with the text. The text is cut up.
const HChar* description_read(HChar* text, Description* description);

#endif
