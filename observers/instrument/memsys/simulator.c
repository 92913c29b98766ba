// SPDX-License-Identifier: GPL-2.0-or-later
#include "simulator.h"

#include "buffered.h"
#include "hierarchy.h"
#include "windows.h"

enum { DEFAULT_WINDOW = 100000 };

static Description description;
static Curve* curves[MOST_CURVES];

static Charge* current;
static Charge* program;  // outside of any operation and collection

// Phases that collect, and all of the collector; 0: each phase is a collection.
static ULong collecting;
static ULong collector;
static Bool is_collecting;

const HChar* simulator_read(HChar* text) {
  const HChar* const wrong = description_read(text, &description);
  if (wrong != NULL) return wrong;
  if (description.window_instructions == 0) description.window_instructions = DEFAULT_WINDOW;
  for (UInt i = 0; i < description.curves_used; ++i)
    curves[i] = curve_new(description.curves[i].of_instructions, description.curves[i].line_bytes);
  charges_initialise(description.models_used);
  windows_initialise(description.window_instructions);
  current = program = charge_of(0, 0, 0);
  return NULL;
}

FetchRules simulator_fetch_rules(void) {
  UInt shift = 6, most_shift = 6;
  Bool again = False;
  for (UInt i = 0; i < description.models_used; ++i) {
    Model* const model = &description.models[i];
    const UInt line_shift = first_level(model, FETCH)->shift;
    if (line_shift < shift) shift = line_shift;
    if (line_shift > most_shift) most_shift = line_shift;
    // Over a write buffer the order matters, but what was just fetched is there.
    if (hierarchy_order_matters(model) && model->buffer.entries == 0) again = True;
  }
  for (UInt i = 0; i < description.curves_used; ++i)
    if (curves[i]->of_instructions && curves[i]->shift < shift) shift = curves[i]->shift;
  for (UInt i = 0; i < description.models_used; ++i) {
    Model* const model = &description.models[i];
    if (model->buffer.entries > 0 ? buffered_numbers_lines(model) : !hierarchy_order_matters(model))
      lines_number(&model->numbered, &model->instruction, 1U << shift);
  }
  return (FetchRules){
      .chunk_bytes = 1U << shift,
      .unit_bytes = 1U << most_shift,
      .again_after_access = again,
      .knows_instructions = description.charges_instructions,
  };
}

static Bool charges_instructions(const Charge* charge) {
  return description.charges_instructions && charge->operation == 0 &&
         (charge->phase & collecting) == 0;
}

static void run(const ULong* word, const ULong* end) {
  if (word == end) return;
  Occurrences* const occurrences = charges_instructions(current) ? &current->occurrences : NULL;
  Events* const events = current->events;
  ULong totals = 0;
  for (UInt i = 0; i < description.models_used; ++i) {
    Model* const model = &description.models[i];
    model->occurrences = occurrences;
    totals = model->buffer.entries > 0 ? buffered_run(model, word, end, &events->models[i])
                                       : hierarchy_run(model, word, end, &events->models[i]);
  }
  events->instructions += packed_instructions(totals);
  events->reads += packed_reads(totals);
  events->writes += packed_writes(totals);
  for (UInt i = 0; i < description.curves_used; ++i)
    curve_run(curves[i], word, end, current->operation % OWNERS);
  if (current == program) windows_note_progress(program->events);
}

static void set_operation(UInt operation, Addr caller) {
  current = operation == 0 && current->phase == 0 ? program
                                                  : charge_of(operation, current->phase, caller);
}

static ULong bits_of(const PhaseNames* phases, ULong (*bit_of)(const HChar* name)) {
  ULong bits = 0;
  for (UInt i = 0; i < phases->used; ++i) bits |= bit_of(phases->name[i]);
  return bits;
}

void simulator_find_phases(ULong (*bit_of)(const HChar* name)) {
  collecting = bits_of(&description.collecting, bit_of);
  collector = collecting | bits_of(&description.collector, bit_of);
}

static Bool collects(ULong phase) {
  if (description.collecting.used == 0) return phase != 0;
  return (phase & (is_collecting ? collector : collecting)) != 0;
}

static void set_phase(ULong phase) {
  if (phase == current->phase) return;
  const Bool was_collecting = is_collecting;
  is_collecting = collects(phase);
  if (is_collecting && !was_collecting) windows_begin_collection(program->events);
  current = charge_of(current->operation, phase, current->caller);
  if (was_collecting && !is_collecting) windows_end_collection(program->events);
}

void simulator_take(const Step* step) {
  if (step->block != NULL) basic_block_link(step->block);
  current->calls += step->calls;
  run(step->word, step->end);
  if (current->operation != step->operation || current->caller != step->caller)
    set_operation(step->operation, step->caller);
  set_phase(step->phase);
}

void simulator_reset_counts(void) {
  charges_reset();
  for (UInt i = 0; i < description.curves_used; ++i) curve_reset_counts(curves[i]);
  windows_reset();
}

const Description* simulator_description(void) { return &description; }

const Curve* simulator_curve(UInt number) { return curves[number]; }
