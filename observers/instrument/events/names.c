// SPDX-License-Identifier: GPL-2.0-or-later
#include "names.h"

#include "output/files.h"

Name event_names[MOST_NAMES];
static UInt used;

UInt name_number(const HChar* text, Bool is_phase) {
  for (UInt i = 0; i < used; ++i)
    if (event_names[i].is_phase == is_phase && VG_(strcmp)(event_names[i].text, text) == 0)
      return i;
  if (used == MOST_NAMES || VG_(strlen)(text) >= EVENT_NAME_BYTES) return MOST_NAMES;
  VG_(strcpy)(event_names[used].text, text);
  event_names[used].is_phase = is_phase;
  return used++;
}

UInt names_used(void) { return used; }

void names_start_child(void) {
  for (UInt i = 0; i < used; ++i) {
    event_names[i].times = 0;
    VG_(memset)(event_names[i].instructions, 0, sizeof event_names[i].instructions);
  }
}

static void write_phase(VgFile* file, const Name* name) {
  ULong sum = 0;
  for (UInt i = 0; i <= OP_COUNT; ++i) sum += name->instructions[i];
  VG_(fprintf)
  (file, "{\"times\": %llu, \"instructions\": %llu, \"by_operation\": {", name->times, sum);
  const HChar* separator = "";
  for (Operation operation = 0; operation < OP_COUNT; ++operation) {
    if (name->instructions[operation] == 0) continue;
    VG_(fprintf)
    (file, "%s\"%s\": %llu", separator, operation_names[operation], name->instructions[operation]);
    separator = ", ";
  }
  VG_(fprintf)(file, "}}");
}

void names_write(VgFile* file) {
  for (UInt phases = 0; phases <= 1; ++phases) {
    const HChar* separator = "";
    VG_(fprintf)(file, " \"%s\": {", phases == 0 ? "events" : "phases");
    for (UInt i = 0; i < used; ++i) {
      if (event_names[i].is_phase != (phases == 1)) continue;
      VG_(fprintf)(file, "%s", separator);
      file_put_text(file, event_names[i].text);
      VG_(fprintf)(file, ": ");
      if (phases == 1)
        write_phase(file, &event_names[i]);
      else
        VG_(fprintf)(file, "%llu", event_names[i].times);
      separator = ",\n  ";
    }
    VG_(fprintf)(file, "},\n");
  }
}
