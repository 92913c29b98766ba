// SPDX-License-Identifier: GPL-2.0-or-later
#include "output.h"

#include "counts.h"
#include "events.h"
#include "feed.h"
#include "files.h"
#include "simulator.h"
#include "trace.h"

enum { FORMAT_VERSION = 1 };

static HChar path[PATH_BYTES];
static Bool has_file;

void output_forget_file(void) { has_file = False; }

static const HChar* name_of(UInt operation) { return operation_names[operation - 1]; }

static void put_phase(VgFile* file, UInt phase) { file_put_text(file, events_phase_name(phase)); }

void output_write(const HChar* folder, const HChar* end) {
  feed_drain();
  if (!has_file) {
    file_claim(folder, "json", path);
    VG_(strcat)(path, ".json");
    has_file = True;
  }
  VgFile* const file = file_begin(path);
  if (file == NULL) return;
  VG_(fprintf)(file, "{\"format\": \"tare-memsys\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"valgrind\": \"%s\",\n", TARE_VALGRIND_VERSION);
  VG_(fprintf)(file, " \"pid\": %d, \"parent\": %d,\n \"program\": ", VG_(getpid)(),
               VG_(getppid)());
  file_put_text(file, VG_(args_the_exename));
  VG_(fprintf)(file, ",\n \"end\": \"%s\",\n", end);
  const Describer describer = {name_of, put_phase, trace_put_place};
  simulator_write(file, &describer);
  VG_(fprintf)(file, "}\n");
  file_end(file, path);
}
