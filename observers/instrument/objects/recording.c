// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording.h"

#include "output/files.h"
#include "output/table.h"
#include "sites/costs.h"
#include "sites/site_files.h"
#include "teardown.h"

enum { RECORDING_VERSION = 1 };

RecordingOptions recording_options = {.usable_size = "no"};

static Table* births;
static Table* deaths;
static Table* pointers;
static Table* marks;
static Table* regions;
static ULong births_so_far;
static HChar base[PATH_BYTES];  // of the names of this process's files

static void describe(const HChar* end, ULong clock) {
  VgFile* const file = file_begin(file_path(base, "json"));
  if (file == NULL) return;
  const RecordingOptions* const options = &recording_options;
  VG_(fprintf)
  (file, "{\"format\": \"tare-recording\", \"version\": %d,\n \"valgrind\": \"%s\", ",
   RECORDING_VERSION, TARE_VALGRIND_VERSION);
  file_put_process(file);
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
  file_end(file, file_path(base, "json"));
}

static void begin_files(void) {
  file_claim(recording_options.folder, "json", base);
  births_so_far = 0;
  births = table_create(file_path(base, "births"), "births",
                        "instructions bytes size usable_size alignment operation thread site "
                        "resized_from region");
  deaths = table_create(file_path(base, "deaths"), "deaths",
                        "id first_use last_use before_teardown unreachable_instructions "
                        "unreachable_bytes free_instructions free_bytes free_thread free_site "
                        "free_operation touched");
  regions = table_create(file_path(base, "regions"), "regions",
                         "region parent site created_bytes destroyed_bytes clears");
  if (recording_options.sites) costs_begin(base);
  if (recording_options.pointers)
    pointers =
        table_create(file_path(base, "pointers"), "pointers", "instructions source offset target");
  if (recording_options.reachability_bytes != 0)
    marks = table_create(
        file_path(base, "marks"), "marks",
        "instructions bytes live_objects live_bytes reachable_objects reachable_bytes");
  describe("running", 0);
}

void recording_start(const RecordingOptions* options) {
  recording_options = *options;
  if (recording_is_on()) begin_files();
}

// glibc keeps the size of a chunk before it, with flags in the lowest three bits.
static SizeT usable_in_glibc(Addr address) {
  enum { MAPPED = 2, FLAGS = 7 };
  const SizeT* const head = (const SizeT*)address - 1;
  const SizeT size = *head & ~(SizeT)FLAGS;
  // Until glibc 2.42 a chunk that is mapped by itself ends with its last page.
  const Bool ends_with_page =
      (*head & MAPPED) != 0 && ((Addr)(head - 1) + size) % VKI_PAGE_SIZE == 0;
  return size - (ends_with_page ? 2 : 1) * sizeof(SizeT);
}

ULong recording_add_birth(const Birth* birth, ULong resized_from) {
  if (!recording_is_on()) return 0;
  const Bool in_glibc = recording_options.usable_size[0] == 'g' && birth->region == 0;
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

// The last use before teardown; 1, which is before each birth, where there is none; 0: no teardown.
static ULong before_teardown(const Use* use, const Death* death) {
  const Bool goes_on = use->stretch >= death->burst_since && use->stretch < death->burst_until &&
                       use->last + TEARDOWN_BEFORE_FIRST >= death->clock;
  if (use->last == 0 || (use->stretch < death->frees_since && !goes_on)) return 0;
  return use->before == 0 ? 1 : use->before;
}

void recording_add_death(UInt slot, const Death* death) {
  const Object* const object = object_in(slot);
  const Use* const use = use_of(slot);
  const ULong row[] = {object->id,
                       use->first,
                       use->last,
                       before_teardown(use, death),
                       object->unreachable_clock,
                       object->unreachable_bytes,
                       death->clock,
                       death->clock == 0 ? 0 : process_count.allocated_bytes,
                       death->thread,
                       death->site,
                       death->freeing,
                       touched_bytes(slot)};
  table_add(deaths, row);
}

void recording_add_region(const RegionRow* region) {
  const ULong row[] = {region->number,        region->parent,          region->site,
                       region->created_bytes, region->destroyed_bytes, region->clears};
  table_add(regions, row);
}

void recording_add_pointer(ULong clock, ULong source, Addr offset, ULong target) {
  const ULong row[] = {clock, source, offset, target};
  table_add(pointers, row);
}

void recording_add_search(const Search* search) {
  const ULong row[] = {search->clock,      process_count.allocated_bytes, search->live_objects,
                       search->live_bytes, search->reachable_objects,     search->reachable_bytes};
  table_add(marks, row);
}

static void flush(void) {
  site_files_flush();
  table_flush(births);
  table_flush(deaths);
  table_flush(pointers);
  table_flush(marks);
  table_flush(regions);
}

void recording_finish(const HChar* end, ULong clock) {
  if (!recording_is_on()) return;
  flush();
  describe(end, clock);
}

void recording_start_child(void) {
  if (!recording_is_on()) return;
  Table** const tables[] = {&births, &deaths, &pointers, &marks, &regions};
  for (UInt i = 0; i < sizeof tables / sizeof *tables; ++i) {
    table_abandon(*tables[i]);
    *tables[i] = NULL;
  }
  begin_files();
}
