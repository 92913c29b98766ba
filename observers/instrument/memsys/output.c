// SPDX-License-Identifier: GPL-2.0-or-later
#include "output.h"

#include "counts.h"
#include "events.h"
#include "feed.h"
#include "files.h"
#include "simulator.h"
#include "site_files.h"
#include "table.h"

enum { FORMAT_VERSION = 1 };

static HChar base[PATH_BYTES];
static Bool has_file;

void output_forget_file(void) { has_file = False; }

static const HChar* name_of(UInt operation) { return operation_names[operation - 1]; }

static void add_occurrence(void* table, const ULong* row) { table_add(table, row); }

static void write_occurrences(void) {
  static HChar name[PATH_BYTES];
  VG_(snprintf)(name, sizeof name, "%s.stalls", base);
  Table* const table = table_create(name, "stalls", "context model address length event count");
  simulator_visit_occurrences(add_occurrence, table);
  table_flush(table);
  table_abandon(table);
}

void output_write(const HChar* folder, const HChar* end) {
  feed_drain();
  if (!has_file) {
    file_claim(folder, "json", base);
    has_file = True;
  }
  static HChar path[PATH_BYTES];
  VG_(snprintf)(path, sizeof path, "%s.json", base);
  VgFile* const file = file_begin(path);
  if (file == NULL) return;
  VG_(fprintf)(file, "{\"format\": \"tare-memsys\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"valgrind\": \"%s\",\n", TARE_VALGRIND_VERSION);
  VG_(fprintf)(file, " \"pid\": %d, \"parent\": %d,\n \"program\": ", VG_(getpid)(),
               VG_(getppid)());
  file_put_text(file, VG_(args_the_exename));
  VG_(fprintf)(file, ",\n \"end\": \"%s\",\n", end);
  const Describer describer = {name_of, events_put_phase, put_place};
  simulator_write(file, &describer);
  VG_(fprintf)(file, "}\n");
  if (simulator_charges_instructions()) write_occurrences();
  file_end(file, path);
}
