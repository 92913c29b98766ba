// SPDX-License-Identifier: GPL-2.0-or-later
#include "memsys_file.h"

#include "events/phases.h"
#include "manager/counts.h"
#include "memsys/results.h"
#include "memsys/simulator.h"
#include "output/files.h"
#include "output/table.h"
#include "sites/site_files.h"

enum { FORMAT_VERSION = 1 };

static HChar base[PATH_BYTES];
static Bool has_file;

void memsys_file_forget(void) { has_file = False; }

static const HChar* name_of(UInt operation) { return operation_names[operation - 1]; }

static void add_occurrence(void* table, const ULong* row) { table_add(table, row); }

static void write_occurrences(void) {
  Table* const table =
      table_create(file_path(base, "stalls"), "stalls", "context model address length event count");
  results_visit_occurrences(add_occurrence, table);
  table_close(table);
}

void memsys_file_write(const HChar* folder, const HChar* end) {
  if (!has_file) {
    file_claim(folder, "json", base);
    has_file = True;
  }
  VgFile* const file = file_begin(file_path(base, "json"));
  if (file == NULL) return;
  VG_(fprintf)(file, "{\"format\": \"tare-memsys\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"valgrind\": \"%s\",\n ", TARE_VALGRIND_VERSION);
  file_put_process(file);
  VG_(fprintf)(file, ",\n \"end\": \"%s\",\n", end);
  const Describer describer = {name_of, put_phase, put_place};
  results_write(file, &describer);
  VG_(fprintf)(file, "}\n");
  if (simulator_description()->charges_instructions) write_occurrences();
  file_end(file, file_path(base, "json"));
}
