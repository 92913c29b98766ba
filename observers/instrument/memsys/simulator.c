// SPDX-License-Identifier: GPL-2.0-or-later
#include "simulator.h"

#include "buffered.h"
#include "curve.h"
#include "description.h"
#include "hierarchy.h"

enum {
  FIRST_TABLE = 1 << 10,
  MOST_CONTEXTS = 1 << 16,
  SNAPSHOTS = 16,
  DEFAULT_WINDOW = 100000,
};

// What happened, and in each model what it met.
typedef struct {
  ULong instructions;
  ULong reads;
  ULong writes;
  Counts models[];
} Events;

typedef struct {
  UInt operation;
  UInt number;  // among those that were written
  ULong phase;
  Addr caller;
  ULong calls;
  Events* events;
  Occurrences occurrences;
} Context;

static Description description;
static Curve* curves[MOST_CURVES];

static Context** contexts;  // a hash table
static UInt contexts_used;
static UInt contexts_capacity;
static Context* current;
static Context* program;  // outside of any operation and collection

// Phases that collect, and all of the collector; 0: each phase is a collection.
static ULong collecting;
static ULong collector;
static Bool is_collecting;

// The program's events some time ago, to look back from the beginning of a collection.
static struct {
  Events* ring[SNAPSHOTS];
  UInt used;
  UInt next;
  Events* since_collection;  // the program's events at its end; valid while is_after
  Bool is_after;
  ULong collections;
  Events* before;
  Events* after;
} windows;

// ---- events ----

static SizeT events_bytes(void) {
  return sizeof(Events) + description.models_used * sizeof(Counts);
}

static Events* new_events(void) { return VG_(calloc)("tare.events", 1, events_bytes()); }

static void add_difference(Events* sum, const Events* now, const Events* then) {
  ULong* const to = (ULong*)sum;
  for (UInt i = 0; i < events_bytes() / sizeof(ULong); ++i)
    to[i] += ((const ULong*)now)[i] - ((const ULong*)then)[i];
}

// ---- contexts ----

static Context** place_of(UInt operation, ULong phase, Addr caller) {
  const ULong key = caller * 0x9e3779b97f4a7c15ULL ^ (phase << 8 | operation);
  UInt place = (UInt)(key * 0x9e3779b97f4a7c15ULL >> 40) & (contexts_capacity - 1);
  for (;; place = (place + 1) & (contexts_capacity - 1)) {
    const Context* const context = contexts[place];
    if (context == NULL ||
        (context->operation == operation && context->phase == phase && context->caller == caller))
      return &contexts[place];
  }
}

static void grow_contexts(void) {
  Context** const old = contexts;
  const UInt old_capacity = contexts_capacity;
  contexts_capacity = old_capacity == 0 ? FIRST_TABLE : 2 * old_capacity;
  contexts = VG_(calloc)("tare.contexts", contexts_capacity, sizeof *contexts);
  for (UInt i = 0; i < old_capacity; ++i)
    if (old[i] != NULL) *place_of(old[i]->operation, old[i]->phase, old[i]->caller) = old[i];
  if (old != NULL) VG_(free)(old);
}

static Context* context_of(UInt operation, ULong phase, Addr caller) {
  if (contexts_used >= contexts_capacity / 2) grow_contexts();
  Context** place = place_of(operation, phase, caller);
  if (*place == NULL && contexts_used >= MOST_CONTEXTS && caller != 0)
    return context_of(operation, phase, 0);
  if (*place == NULL) {
    Context* const context = VG_(calloc)("tare.context", 1, sizeof *context);
    context->operation = operation;
    context->phase = phase;
    context->caller = caller;
    context->events = new_events();
    *place = context;
    ++contexts_used;
  }
  return *place;
}

// ---- before and after collections ----

static void forget_snapshots(void) { windows.used = windows.next = 0; }

static void copy_events(Events* to, const Events* from) { VG_(memcpy)(to, from, events_bytes()); }

static void take_snapshot(void) {
  copy_events(windows.ring[windows.next], program->events);
  windows.next = (windows.next + 1) % SNAPSHOTS;
  if (windows.used < SNAPSHOTS) ++windows.used;
}

static void end_window_after(void) {
  if (windows.is_after) add_difference(windows.after, program->events, windows.since_collection);
  windows.is_after = False;
}

static const Events* latest_snapshot(void) {
  return windows.ring[(windows.next + SNAPSHOTS - 1) % SNAPSHOTS];
}

static void note_progress(void) {
  const ULong now = program->events->instructions;
  const ULong length = description.window_instructions;
  if (windows.used == 0 || now - latest_snapshot()->instructions >= length / (SNAPSHOTS - 1))
    take_snapshot();
  if (windows.is_after && now - windows.since_collection->instructions >= length)
    end_window_after();
}

static void begin_collection(void) {
  ++windows.collections;
  end_window_after();
  const ULong now = program->events->instructions;
  const Events* then = NULL;
  for (UInt back = 1; back <= windows.used; ++back) {
    then = windows.ring[(windows.next + SNAPSHOTS - back) % SNAPSHOTS];
    if (now - then->instructions >= description.window_instructions) break;
  }
  if (then != NULL) add_difference(windows.before, program->events, then);
}

static void end_collection(void) {
  forget_snapshots();
  take_snapshot();
  copy_events(windows.since_collection, program->events);
  windows.is_after = True;
}

// ---- interface ----

static void begin_counts(void) {
  current = program = context_of(0, 0, 0);
  forget_snapshots();
  windows.is_after = False;
  windows.collections = 0;
}

const HChar* simulator_read(HChar* text) {
  const HChar* const wrong = description_read(text, &description);
  if (wrong != NULL) return wrong;
  if (description.window_instructions == 0) description.window_instructions = DEFAULT_WINDOW;
  for (UInt i = 0; i < description.curves_used; ++i)
    curves[i] = curve_new(description.curves[i].of_instructions, description.curves[i].line_bytes);
  for (UInt i = 0; i < SNAPSHOTS; ++i) windows.ring[i] = new_events();
  windows.since_collection = new_events();
  windows.before = new_events();
  windows.after = new_events();
  begin_counts();
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
  for (UInt i = 0; i < description.models_used; ++i)
    if (!hierarchy_order_matters(&description.models[i]))
      hierarchy_number_lines(&description.models[i], 1U << shift);
  return (FetchRules){
      .chunk_bytes = 1U << shift,
      .unit_bytes = 1U << most_shift,
      .again_after_access = again,
      .knows_instructions = description.charges_instructions,
  };
}

static Bool charges_instructions(const Context* context) {
  return description.charges_instructions && context->operation == 0 &&
         (context->phase & collecting) == 0;
}

void simulator_run(const ULong* word, const ULong* end) {
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
  if (current == program) note_progress();
}

Bool simulator_charges(UInt operation, Addr caller) {
  return current->operation == operation && current->caller == caller;
}

void simulator_set_operation(UInt operation, Addr caller) {
  current = operation == 0 && current->phase == 0 ? program
                                                  : context_of(operation, current->phase, caller);
}

void simulator_count_call(void) { ++current->calls; }

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

void simulator_set_phase(ULong phase) {
  if (phase == current->phase) return;
  const Bool was_collecting = is_collecting;
  is_collecting = collects(phase);
  if (is_collecting && !was_collecting) begin_collection();
  current = context_of(current->operation, phase, current->caller);
  if (was_collecting && !is_collecting) end_collection();
}

void simulator_reset_counts(void) {
  for (UInt i = 0; i < contexts_capacity; ++i) {
    if (contexts[i] == NULL) continue;
    contexts[i]->calls = 0;
    VG_(memset)(contexts[i]->events, 0, events_bytes());
    occurrences_clear(&contexts[i]->occurrences);
  }
  for (UInt i = 0; i < description.curves_used; ++i) curve_reset_counts(curves[i]);
  VG_(memset)(windows.before, 0, events_bytes());
  VG_(memset)(windows.after, 0, events_bytes());
  forget_snapshots();
  windows.is_after = False;
  windows.collections = 0;
}

// ---- writing ----

static void write_events(VgFile* file, const Events* events) {
  VG_(fprintf)(file, "\"instructions\": %llu, \"reads\": %llu, \"writes\": %llu, \"models\": [",
               events->instructions, events->reads, events->writes);
  for (UInt i = 0; i < description.models_used; ++i) {
    const ULong* const counts = (const ULong*)&events->models[i];
    for (UInt j = 0; j < COUNTS; ++j)
      VG_(fprintf)(file, "%s%llu", j > 0 ? ", " : i > 0 ? "], [" : "[", counts[j]);
  }
  VG_(fprintf)(file, description.models_used > 0 ? "]]" : "]");
}

static void write_context(VgFile* file, const Context* context, const Describer* describer) {
  VG_(fprintf)(file, "{\"operation\": \"%s\", \"phase\": ",
               context->operation == 0 ? "program" : describer->operation(context->operation));
  describer->phase(file, context->phase);
  VG_(fprintf)(file, ", ");
  if (context->caller != 0) {
    VG_(fprintf)(file, "\"caller\": {");
    describer->caller(file, context->caller);
    VG_(fprintf)(file, "}, ");
  }
  VG_(fprintf)(file, "\"calls\": %llu, ", context->calls);
  write_events(file, context->events);
  VG_(fprintf)(file, "}");
}

static Bool has_run(const Context* context) {
  return context->calls > 0 || context->events->instructions > 0;
}

static void write_curve_counts(VgFile* file, const CurveCounts* counts) {
  VG_(fprintf)(file, "\"accesses\": %llu, \"first_uses\": %llu,\n   \"distances\": [",
               counts->accesses, counts->first_uses);
  const HChar* separator = "";
  for (UInt bin = 0; bin < DISTANCE_BINS; ++bin) {
    if (counts->bins[bin] == 0) continue;
    VG_(fprintf)(file, "%s[%llu, %llu]", separator, distance_bin_start(bin), counts->bins[bin]);
    separator = ", ";
  }
  VG_(fprintf)(file, "],\n   \"places\": [");
  for (UInt sets = 0; sets < SET_COUNTS; ++sets)
    for (UInt place = 0; place < WAYS; ++place)
      VG_(fprintf)(file, "%s%llu",
                   place > 0  ? ", "
                   : sets > 0 ? "], ["
                              : "[",
                   curve_hits(counts, sets, place));
  VG_(fprintf)(file, "]]");
}

static void write_curve(VgFile* file, const Curve* curve, const Describer* describer) {
  VG_(fprintf)(file, "{\"of\": \"%s\", \"line_bytes\": %u, \"lines\": %u, \"owners\": {",
               curve->of_instructions ? "instructions" : "data", 1U << curve->shift,
               curve->distances.used);
  const HChar* separator = "";
  for (UInt owner = 0; owner < OWNERS; ++owner) {
    if (curve->counts[owner].accesses == 0) continue;
    VG_(fprintf)(file, "%s\n  \"%s\": {", separator,
                 owner == 0 ? "program" : describer->operation(owner));
    write_curve_counts(file, &curve->counts[owner]);
    VG_(fprintf)(file, "}");
    separator = ",";
  }
  VG_(fprintf)(file, "}}");
}

void simulator_write(VgFile* file, const Describer* describer) {
  VG_(fprintf)(file, " \"models\": [");
  for (UInt i = 0; i < description.models_used; ++i)
    VG_(fprintf)(file, "%s\"%s\"", i > 0 ? ", " : "", description.models[i].name);
  VG_(fprintf)(file, "],\n \"contexts\": [");
  const HChar* separator = "\n  ";
  UInt written = 0;
  for (UInt i = 0; i < contexts_capacity; ++i) {
    Context* const context = contexts[i];
    if (context == NULL || !has_run(context)) continue;
    context->number = written++;
    VG_(fprintf)(file, "%s", separator);
    write_context(file, context, describer);
    separator = ",\n  ";
  }
  VG_(fprintf)(file, "],\n \"collections\": %llu,\n \"before_collections\": {",
               windows.collections);
  write_events(file, windows.before);
  VG_(fprintf)(file, "},\n \"after_collections\": {");
  write_events(file, windows.after);
  VG_(fprintf)(file, "},\n \"curves\": [");
  for (UInt i = 0; i < description.curves_used; ++i) {
    VG_(fprintf)(file, i > 0 ? ",\n  " : "\n  ");
    write_curve(file, curves[i], describer);
  }
  VG_(fprintf)(file, "]");
}

static void visit_occurrences_of(const Context* context, void (*visit)(void* to, const ULong* row),
                                 void* to) {
  for (UInt i = 0; i < context->occurrences.capacity; ++i) {
    const Occurrence* const one = &context->occurrences.entries[i];
    if (one->stretch == NULL) continue;
    // A stretch without instructions goes on with one that began in another.
    const Bool is_known = packed_instructions(one->stretch->totals) > 0;
    const ULong place = is_known ? one->stretch->instruction[one->at] : 0;
    const ULong row[OCCURRENCE_COLUMNS] = {context->number,    one->model, place_address(place),
                                           place_bytes(place), one->event, one->count};
    visit(to, row);
  }
}

Bool simulator_charges_instructions(void) { return description.charges_instructions; }

void simulator_visit_occurrences(void (*visit)(void* to, const ULong* row), void* to) {
  for (UInt i = 0; i < contexts_capacity; ++i)
    if (contexts[i] != NULL && has_run(contexts[i])) visit_occurrences_of(contexts[i], visit, to);
}
