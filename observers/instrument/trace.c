// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace.h"

#include "counts.h"
#include "files.h"
#include "regions.h"
#include "site_files.h"
#include "table.h"

enum { RECORDING_VERSION = 1 };

static Table* births;
static Table* deaths;
static Table* pointers;
static Table* marks;
static Table* regions;
static ULong births_so_far;
static HChar base[PATH_BYTES];  // of the names of this process's files

static const HChar* path_of(const HChar* ending) {
  static HChar path[PATH_BYTES];
  VG_(snprintf)(path, sizeof path, "%s.%s", base, ending);
  return path;
}

static void describe(const HChar* end, ULong clock) {
  VgFile* const file = file_begin(path_of("json"));
  if (file == NULL) return;
  const TraceOptions* const options = &trace_options;
  VG_(fprintf)
  (file,
   "{\"format\": \"tare-recording\", \"version\": %d,\n \"valgrind\": \"%s\", \"pid\": %d, "
   "\"parent\": %d,\n \"program\": ",
   RECORDING_VERSION, TARE_VALGRIND_VERSION, VG_(getpid)(), VG_(getppid)());
  file_put_text(file, VG_(args_the_exename));
  VG_(fprintf)
  (file,
   ",\n \"end\": \"%s\", \"instructions\": %llu, \"allocated_bytes\": %llu, \"objects\": %llu,\n",
   end, clock, process_count.allocated_bytes, births_so_far);
  VG_(fprintf)
  (file,
   " \"last_use\": %s, \"sites\": %s, \"pointers\": %s, \"reachability_bytes\": %lld, "
   "\"usable_size\": \"%s\",\n",
   options->last_use ? "true" : "false", options->sites ? "true" : "false",
   options->pointers ? "true" : "false", options->reachability_bytes, options->usable_size);
  VG_(fprintf)
  (file, " \"threads\": %llu, \"unknown_frees\": %llu, \"inherited_frees\": %llu}\n",
   process_count.threads, process_count.unknown_frees, process_count.inherited_frees);
  file_end(file, path_of("json"));
}

void trace_start(void) {
  if (!trace_is_on()) return;
  file_claim(trace_options.folder, "json", base);
  births_so_far = 0;
  births = table_create(path_of("births"), "births",
                        "instructions bytes size usable_size alignment operation thread site "
                        "resized_from region");
  deaths = table_create(path_of("deaths"), "deaths",
                        "id first_use last_use unreachable_instructions unreachable_bytes "
                        "free_instructions free_bytes free_operation");
  regions = table_create(path_of("regions"), "regions",
                         "region parent site created_bytes destroyed_bytes clears");
  if (trace_options.sites) site_files_begin(base);
  if (trace_options.pointers)
    pointers = table_create(path_of("pointers"), "pointers", "instructions source offset target");
  if (trace_options.reachability_bytes != 0)
    marks = table_create(
        path_of("marks"), "marks",
        "instructions bytes live_objects live_bytes reachable_objects reachable_bytes");
  describe("running", 0);
}

// glibc keeps the size of a chunk before it, with flags in the lowest three bits.
static SizeT usable_in_glibc(Addr address) {
  enum { MAPPED = 2, FLAGS = 7 };
  const SizeT head = *((const SizeT*)address - 1);
  return (head & ~(SizeT)FLAGS) - ((head & MAPPED) != 0 ? 2 : 1) * sizeof(SizeT);
}

ULong trace_birth(const Birth* birth, ULong resized_from) {
  if (!trace_is_on()) return 0;
  const Bool in_glibc = trace_options.usable_size[0] == 'g' && birth->region == 0;
  const ULong row[] = {
      birth->clock,     process_count.allocated_bytes,
      birth->size,      in_glibc ? usable_in_glibc(birth->address) : birth->usable_size,
      birth->alignment, birth->operation,
      birth->thread,    birth->site,
      resized_from,     birth->region};
  // What the births on disk refer to is to be there, too, if the process is killed.
  if (table_add(births, row)) {
    site_files_flush();
    table_flush(regions);
  }
  return ++births_so_far;
}

void trace_death(const Object* object, const Use* use, ULong clock, Freeing freeing) {
  const ULong row[] = {object->id,
                       use->first,
                       use->last,
                       object->unreachable_clock,
                       object->unreachable_bytes,
                       clock,
                       clock == 0 ? 0 : process_count.allocated_bytes,
                       freeing};
  table_add(deaths, row);
}

void trace_region(const RegionRow* region) {
  const ULong row[] = {region->number,        region->parent,          region->site,
                       region->created_bytes, region->destroyed_bytes, region->clears};
  table_add(regions, row);
}

void trace_pointer(ULong clock, ULong source, Addr offset, ULong target) {
  const ULong row[] = {clock, source, offset, target};
  table_add(pointers, row);
}

void trace_mark(const Mark* mark) {
  const ULong row[] = {mark->clock,      process_count.allocated_bytes, mark->live_objects,
                       mark->live_bytes, mark->reachable_objects,       mark->reachable_bytes};
  table_add(marks, row);
}

void trace_flush(void) {
  if (!trace_is_on()) return;
  site_files_flush();
  table_flush(births);
  table_flush(deaths);
  table_flush(pointers);
  table_flush(marks);
  table_flush(regions);
}

void trace_finish(const HChar* end, ULong clock) {
  if (!trace_is_on()) return;
  for (UInt slot = 1; slot < objects_end(); ++slot) {
    const Object* const object = object_in(slot);
    if (object->id != 0 && !object_is_inherited(object))
      trace_death(object, use_of(slot), 0, NOT_FREED);
  }
  regions_finish();
  trace_flush();
  describe(end, clock);
}

void trace_start_child(void) {
  Table** const tables[] = {&births, &deaths, &pointers, &marks, &regions};
  for (UInt i = 0; i < sizeof tables / sizeof *tables; ++i) {
    table_abandon(*tables[i]);
    *tables[i] = NULL;
  }
  regions_start_child();
  trace_start();
}
