// SPDX-License-Identifier: GPL-2.0-or-later
#include "code_file.h"

#include "counts_file.h"
#include "events/phases.h"
#include "executions/stretches.h"
#include "output/files.h"
#include "output/table.h"

enum { FORMAT_VERSION = 2 };

static HChar base[PATH_BYTES];
static Bool has_files;

void code_file_forget(void) { has_files = False; }

static void write_context(VgFile* file, const Context* context) {
  VG_(fprintf)(file, "{\"phases\": ");
  put_phase(file, context->phases);
  VG_(fprintf)(file, ", \"operation\": ");
  file_put_text(file, context->operation == OP_COUNT ? "" : operation_names[context->operation]);
  VG_(fprintf)(file, "}");
}

static void describe(const HChar* end, ULong clock) {
  VgFile* const file = file_begin(file_path(base, "json"));
  if (file == NULL) return;
  VG_(fprintf)(file, "{\"format\": \"tare-code\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " ");
  file_put_process(file);
  VG_(fprintf)(file, ",\n \"end\": \"%s\", \"instructions\": %llu,\n \"objects\": [", end, clock);
  for (UInt i = 0; i < code_objects_used(); ++i) {
    const CodeObject* const object = code_object(i);
    VG_(fprintf)(file, "%s{\"file\": ", i == 0 ? "\n  " : ",\n  ");
    file_put_text(file, object->file);
    VG_(fprintf)(file, ", \"bias\": %lu}", object->bias);
  }
  VG_(fprintf)(file, "],\n \"contexts\": [");
  for (UInt i = 0; i < contexts_used(); ++i) {
    VG_(fprintf)(file, "%s", i == 0 ? "\n  " : ",\n  ");
    write_context(file, context_of(i));
  }
  VG_(fprintf)(file, "],\n ");
  put_operations(file);
  VG_(fprintf)(file, "}\n");
  file_end(file, file_path(base, "json"));
}

static Bool add_counts(Table* table, UInt stretch) {
  Bool executed = False;
  for (UInt i = 0; i < contexts_used(); ++i) {
    const ULong count = context_of(i)->counters[stretch];
    if (count == 0) continue;
    const ULong row[] = {stretch, i, count};
    table_add(table, row);
    executed = True;
  }
  return executed;
}

static void add_code(Table* table, const Stretch* stretch) {
  Addr address = stretch->address;
  const UChar* bytes = stretch->content + stretch->instructions;
  for (UInt i = 0; i < stretch->instructions; ++i) {
    const UInt length = stretch->content[i];
    ULong words[2] = {0, 0};
    VG_(memcpy)(words, bytes, length < sizeof words ? length : sizeof words);
    const ULong row[] = {stretch->number, stretch->object, address, length, words[0], words[1]};
    table_add(table, row);
    address += length;
    bytes += length;
  }
}

typedef struct {
  Table* code;
  Table* counts;
} Tables;

static void add_stretch(void* to, const Stretch* stretch) {
  const Tables* const tables = to;
  if (add_counts(tables->counts, stretch->number)) add_code(tables->code, stretch);
}

void code_file_write(const HChar* folder, const HChar* end, ULong clock) {
  if (!has_files) file_claim(folder, "json", base);
  has_files = True;
  Tables tables = {
      table_create(file_path(base, "code"), "code", "stretch object address length low high"),
      table_create(file_path(base, "executions"), "executions", "stretch context count"),
  };
  add_counts(tables.counts, REST);
  stretches_visit(add_stretch, &tables);
  table_close(tables.code);
  table_close(tables.counts);
  describe(end, clock);
}
