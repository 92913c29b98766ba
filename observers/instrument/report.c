// SPDX-License-Identifier: GPL-2.0-or-later
#include "report.h"

#include "counts.h"

enum { FORMAT_VERSION = 1, PATH_BYTES = 4096, MOST_IMAGES = 100000 };

static HChar path[PATH_BYTES];
static HChar unfinished[PATH_BYTES];
static Bool has_file;

void report_forget_file(void) { has_file = False; }

static Bool exists(const HChar* file) {
  struct vg_stat status;
  return !sr_isError(VG_(stat)(file, &status));
}

// One process can be several programs in turn: exec keeps its number. So the name has a serial.
static void claim_file(const HChar* folder) {
  for (UInt image = 0; image < MOST_IMAGES; ++image) {
    VG_(snprintf)(path, sizeof path, "%s/%d.%u.json", folder, VG_(getpid)(), image);
    if (!exists(path)) break;
  }
  VG_(snprintf)(unfinished, sizeof unfinished, "%s.part", path);
  has_file = True;
}

static void write_text(VgFile* file, const HChar* text) {
  VG_(fprintf)(file, "\"");
  for (; *text != '\0'; ++text) {
    const UChar byte = (UChar)*text;
    if (byte == '"' || byte == '\\')
      VG_(fprintf)(file, "\\%c", byte);
    else if (byte < 0x20 || byte >= 0x7f)
      VG_(fprintf)(file, "\\u%04x", byte);
    else
      VG_(fprintf)(file, "%c", byte);
  }
  VG_(fprintf)(file, "\"");
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

void report_write(const HChar* folder, const HChar* end, ULong living) {
  if (!has_file) claim_file(folder);
  VgFile* const file =
      VG_(fopen)(unfinished, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, VKI_S_IRUSR | VKI_S_IWUSR);
  if (file == NULL) {
    VG_(umsg)("cannot write %s\n", unfinished);
    return;
  }
  const ProcessCount* const count = &process_count;
  const ULong proof = operation_counts[OP_PROOF].instructions;
  VG_(fprintf)(file, "{\"format\": \"tare-count\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"valgrind\": \"%s\",\n", TARE_VALGRIND_VERSION);
  VG_(fprintf)(file, " \"pid\": %d, \"parent\": %d,\n \"program\": ", VG_(getpid)(),
               VG_(getppid)());
  write_text(file, VG_(args_the_exename));
  VG_(fprintf)(file, ",\n \"end\": \"%s\",\n", end);
  VG_(fprintf)
  (file, " \"instructions\": %llu, \"proof_instructions\": %llu,\n",
   count->instructions + living - proof, proof);
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
  VG_(fprintf)
  (file, " \"threads\": %llu, \"signals\": %llu,\n \"operations\": {", count->threads,
   count->signals);
  const HChar* separator = "\n  ";
  for (Operation operation = 0; operation < OP_COUNT; ++operation) {
    if (operation_counts[operation].calls == 0) continue;
    VG_(fprintf)(file, "%s", separator);
    write_operation(file, operation);
    separator = ",\n  ";
  }
  VG_(fprintf)(file, "}}\n");
  VG_(fclose)(file);
  if (VG_(rename)(unfinished, path) != 0) VG_(umsg)("cannot write %s\n", path);
}
