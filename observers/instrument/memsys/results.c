// SPDX-License-Identifier: GPL-2.0-or-later
#include "results.h"

#include "simulator.h"
#include "windows.h"

static void write_events(VgFile* file, const Events* events) {
  const Description* const description = simulator_description();
  VG_(fprintf)(file, "\"instructions\": %llu, \"reads\": %llu, \"writes\": %llu, \"models\": [",
               events->instructions, events->reads, events->writes);
  for (UInt i = 0; i < description->models_used; ++i) {
    const ULong* const counts = (const ULong*)&events->models[i];
    for (UInt j = 0; j < COUNTS; ++j)
      VG_(fprintf)(file, "%s%llu", j > 0 ? ", " : i > 0 ? "], [" : "[", counts[j]);
  }
  VG_(fprintf)(file, description->models_used > 0 ? "]]" : "]");
}

static void write_context(VgFile* file, const Charge* charge, const Describer* describer) {
  VG_(fprintf)(file, "{\"operation\": \"%s\", \"phase\": ",
               charge->operation == 0 ? "program" : describer->operation(charge->operation));
  describer->phase(file, charge->phase);
  VG_(fprintf)(file, ", ");
  if (charge->caller != 0) {
    VG_(fprintf)(file, "\"caller\": {");
    describer->caller(file, charge->caller);
    VG_(fprintf)(file, "}, ");
  }
  VG_(fprintf)(file, "\"calls\": %llu, ", charge->calls);
  write_events(file, charge->events);
  VG_(fprintf)(file, "}");
}

static Bool has_run(const Charge* charge) {
  return charge->calls > 0 || charge->events->instructions > 0;
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

void results_write(VgFile* file, const Describer* describer) {
  const Description* const description = simulator_description();
  VG_(fprintf)(file, " \"models\": [");
  for (UInt i = 0; i < description->models_used; ++i)
    VG_(fprintf)(file, "%s\"%s\"", i > 0 ? ", " : "", description->models[i].name);
  VG_(fprintf)(file, "],\n \"contexts\": [");
  const HChar* separator = "\n  ";
  UInt written = 0, place = 0;
  for (Charge* charge; (charge = charges_next(&place)) != NULL;) {
    if (!has_run(charge)) continue;
    charge->number = written++;
    VG_(fprintf)(file, "%s", separator);
    write_context(file, charge, describer);
    separator = ",\n  ";
  }
  VG_(fprintf)(file, "],\n \"collections\": %llu,\n \"before_collections\": {", collections());
  write_events(file, events_before_collections());
  VG_(fprintf)(file, "},\n \"after_collections\": {");
  write_events(file, events_after_collections());
  VG_(fprintf)(file, "},\n \"curves\": [");
  for (UInt i = 0; i < description->curves_used; ++i) {
    VG_(fprintf)(file, i > 0 ? ",\n  " : "\n  ");
    write_curve(file, simulator_curve(i), describer);
  }
  VG_(fprintf)(file, "]");
}

typedef struct {
  UInt context;
  void (*visit)(void* to, const ULong* row);
  void* to;
} RowVisitor;

static void visit_row(const BasicBlock* block, UInt at, UInt kind, ULong count, void* visitor) {
  const RowVisitor* const rows = visitor;
  // A block without instructions goes on with one that began in another.
  const Bool is_known = packed_instructions(block->totals) > 0;
  const ULong place = is_known ? block->instruction[at] : 0;
  const ULong row[OCCURRENCE_COLUMNS] = {rows->context,      kind / COUNTS, place_address(place),
                                         place_bytes(place), kind % COUNTS, count};
  rows->visit(rows->to, row);
}

void results_visit_occurrences(void (*visit)(void* to, const ULong* row), void* to) {
  UInt place = 0;
  for (const Charge* charge; (charge = charges_next(&place)) != NULL;) {
    RowVisitor rows = {charge->number, visit, to};
    if (has_run(charge)) occurrences_visit(&charge->occurrences, visit_row, &rows);
  }
}
