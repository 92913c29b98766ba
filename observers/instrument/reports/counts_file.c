// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts_file.h"

#include "events/names.h"
#include "manager/counts.h"
#include "output/files.h"

enum { FORMAT_VERSION = 1 };

static HChar base[PATH_BYTES];
static Bool has_base;

void counts_file_forget(void) { has_base = False; }

const HChar* counts_file_base(const HChar* folder) {
  if (!has_base) file_claim(folder, "json", base);
  has_base = True;
  return base;
}

static void write_operation(VgFile* file, Operation operation) {
  const OperationCount* const count = &operation_counts[operation];
  VG_(fprintf)
  (file,
   "\"%s\": {\"calls\": %llu, \"instructions\": %llu, \"bytes\": %llu, \"no_object\": %llu, "
   "\"left\": %llu, \"fewest\": %llu, \"most\": %llu, \"histogram\": [",
   operation_names[operation], count->calls, count->instructions, count->bytes, count->no_object,
   count->left, count->fewest, count->most);
  const HChar* separator = "";
  for (UInt bin = 0; bin < BINS; ++bin) {
    if (count->bins[bin] == 0) continue;
    VG_(fprintf)(file, "%s[%llu, %llu]", separator, bin_lower_end(bin), count->bins[bin]);
    separator = ", ";
  }
  VG_(fprintf)(file, "]}");
}

void put_operations(VgFile* file) {
  VG_(fprintf)(file, "\"operations\": {");
  const HChar* separator = "\n  ";
  for (Operation operation = 0; operation < OP_COUNT; ++operation) {
    if (operation_counts[operation].calls == 0) continue;
    VG_(fprintf)(file, "%s", separator);
    write_operation(file, operation);
    separator = ",\n  ";
  }
  VG_(fprintf)(file, "}");
}

void counts_file_write(const HChar* folder, const HChar* end, ULong clock) {
  VgFile* const file = file_begin(file_path(counts_file_base(folder), "json"));
  if (file == NULL) return;
  const ProcessCount* const count = &process_count;
  const ULong proof = operation_counts[OP_PROOF].instructions;
  VG_(fprintf)(file, "{\"format\": \"tare-count\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"valgrind\": \"%s\",\n ", TARE_VALGRIND_VERSION);
  file_put_process(file);
  VG_(fprintf)(file, ",\n \"end\": \"%s\",\n", end);
  VG_(fprintf)
  (file, " \"instructions\": %llu, \"proof_instructions\": %llu,\n", clock - proof, proof);
  VG_(fprintf)
  (file, " \"objects\": %llu, \"freed_objects\": %llu, \"resized_objects\": %llu,\n",
   count->objects, count->freed_objects, count->resized_objects);
  VG_(fprintf)
  (file, " \"allocated_bytes\": %llu, \"live_objects\": %llu, \"live_bytes\": %llu,\n",
   count->allocated_bytes, count->live_objects, count->live_bytes);
  VG_(fprintf)
  (file, " \"max_live_objects\": %llu, \"max_live_bytes\": %llu,\n", count->max_live_objects,
   count->max_live_bytes);
  VG_(fprintf)
  (file, " \"unknown_frees\": %llu, \"inherited_frees\": %llu,\n", count->unknown_frees,
   count->inherited_frees);
  names_write(file);
  VG_(fprintf)
  (file, " \"threads\": %llu, \"signals\": %llu,\n ", count->threads, count->signals);
  put_operations(file);
  VG_(fprintf)(file, "}\n");
  file_end(file, file_path(base, "json"));
}
