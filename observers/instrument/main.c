// SPDX-License-Identifier: GPL-2.0-or-later
// tareinst: counts the instructions of a program, inside and outside its memory manager, and
// records the lives of its objects.
//
// The manager is the program's own or a preloaded one: nothing is replaced, nothing is wrapped. An
// operation begins where control reaches the address of a symbol of the malloc family, and ends
// when a return, or another indirect jump, leaves the stack pointer above where it was then. That
// holds for tail calls, for exceptions and for longjmp; what an operation calls of the family
// itself is part of it.
//
// docs/instrument.md says how the figures are defined and what is not seen.
//
// A folder includes only folders below it; from the top:
//
//   .                      the process: its options, what is started and written when; the launcher
//   translate/             a block of the program, made into one that is also watched
//   threads/, reports/     what each thread is in; the files of a process
//   events/, objects/      named places, and phases; the objects that are alive, and the recording
//   executions/, memsys/, sites/   how often each instruction was executed; the simulator of memory
//                          systems; who called
//   manager/               the malloc family, where it begins, and what is counted of it
//   guest/                 the program as the core shows it
//   platform/, output/, client/    what is the processor's or Linux's; files and tables; what is
//                          preloaded into programs with regions
//
// Beside them: core/ builds Valgrind's core with our patches; distribution/ does what these do with
// a core that is built already.

#include "events/events.h"
#include "events/phases.h"
#include "events/places.h"
#include "executions/stretches.h"
#include "manager/entries.h"
#include "manager/proof.h"
#include "manager/returns.h"
#include "memsys/feed.h"
#include "objects/objects.h"
#include "objects/reachability.h"
#include "objects/regions.h"
#include "options.h"
#include "platform/linux.h"
#include "reports/code_file.h"
#include "reports/counts_file.h"
#include "reports/memsys_file.h"
#include "sites/costs.h"
#include "sites/shadow.h"
#include "threads/client_requests.h"
#include "threads/threads.h"
#include "translate/translate.h"

// ---- life of the process ----

static void write_files(const HChar* end) {
  const ULong clock = threads_clock();
  if (costs_are_on()) costs_write();
  if (options.count_folder != NULL) counts_file_write(options.count_folder, end, clock);
  if (recording_is_on()) {
    objects_finish();
    regions_finish();
    recording_finish(end, clock);
  }
  if (feed_is_on()) {
    feed_stop();
    if (options.memsys_folder != NULL) memsys_file_write(options.memsys_folder, end);
  }
  if (executions_are_on()) code_file_write(options.code_folder, end, clock);
  if (PROVES_MANAGER) proof_write();
}

static void before_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count) {
  (void)count;
  if (ends_handler(number)) threads_before_sigreturn(thread);
  if (FOLLOWS_MEMORY) {
    const Mapping guard = guard_of(number, arguments);
    reachability_note_mapping(guard.start, guard.bytes, True);
  }
  // Nothing of this process is left to write a file once the exec has worked.
  if (starts_program(number)) write_files("exec");
}

static void after_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count,
                          SysRes result) {
  (void)count;
  give_auxiliary_vector(number, arguments, result);
  if (!FOLLOWS_MEMORY) return;
  const Bool failed = sr_isError(result);
  const Mapping mapping =
      failed ? guard_of(number, arguments) : mapping_of(number, arguments, sr_Res(result));
  reachability_note_mapping(mapping.start, mapping.bytes,
                            !failed && !mapping.is_gone && load_registers(thread).inside != 0);
}

// What the kernel reads and writes for the program.
static void note_kernel_s_use(CorePart part, ThreadId thread, Addr address, SizeT size) {
  if (size == 0 || (part != Vg_CoreSysCall && part != Vg_CoreSysCallArgInMem)) return;
  (void)thread;
  object_used(address, size, threads_clock());
}

static void note_kernel_s_read(CorePart part, ThreadId thread, const HChar* what, Addr address,
                               SizeT size) {
  (void)what;
  note_kernel_s_use(part, thread, address, size);
}

// Of the text at `address`, its end included, what lies in one object; 1 where it lies in none, and
// may not be readable.
static SizeT text_bytes(Addr address) {
  const UInt slot = has_map_entry(address) ? *map_entry(address) : 0;
  if (slot == 0) return 1;
  const Addr end = object_in(slot)->address + object_in(slot)->size;
  Addr at = address;
  while (at + 1 < end && *(const HChar*)at != '\0') ++at;
  return at + 1 - address;
}

static void note_kernel_s_read_of_text(CorePart part, ThreadId thread, const HChar* what,
                                       Addr address) {
  note_kernel_s_read(part, thread, what, address, text_bytes(address));
}

static void start_child(ThreadId thread) {
  (void)thread;
  counts_file_forget();
  if (FOLLOWS_MEMORY && options.count_sites) costs_begin(counts_file_base(options.count_folder));
  if (FOLLOWS_MEMORY) memsys_file_forget();
  code_file_forget();
}

static void finish(Int exit_code) {
  (void)exit_code;
  threads_finish();
  write_files("exit");
}

static void follow_memory(void) {
  if (options.memsys_models != NULL) feed_start(options.memsys_models, phase_bit);
  const Bool searches = options.recording.reachability_bytes != 0;
  map_initialise(options.recording.last_use || options.recording.pointers || searches);
  if (searches) reachability_initialise((ULong)options.recording.reachability_bytes);
  if (options.recording.sites || options.count_sites) sites_initialise();
  if (options.count_sites) costs_begin(counts_file_base(options.count_folder));
  if (options.recording.last_use) {
    VG_(track_pre_mem_read)(note_kernel_s_read);
    VG_(track_pre_mem_read_asciiz)(note_kernel_s_read_of_text);
    VG_(track_post_mem_write)(note_kernel_s_use);
  }
  recording_start(&options.recording);
}

static void after_options(void) {
  options_check();
  // A block that goes on past a branch contains calls, and instructions that may not be executed.
  if (options.recording.sites || options.count_sites || options.events_file != NULL ||
      options.memsys_models != NULL || options.code_folder != NULL)
    VG_(clo_vex_control).guest_chase = False;
  counts_reset();
  if (options.code_folder != NULL) {
    executions_begin();
    entries_watch_memory_functions();
  }
  if (options.events_file != NULL) {
    events_read(options.events_file);
    entries_follow_loading_for(places_follow_loading, places_forget);
  }
  if (FOLLOWS_MEMORY) follow_memory();
}

static void before_options(void) {
  VG_(details_name)("tareinst");
  VG_(details_version)(NULL);
  VG_(details_description)("what memory management costs");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the authors of Tare.");
  VG_(details_bug_reports_to)("the authors of Tare");
  VG_(basic_tool_funcs)(after_options, translate, finish);
  options_initialise();
  VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
  entries_initialise();
  returns_initialise();
  threads_initialise();
  if (FOLLOWS_MEMORY) client_requests_initialise();
  VG_(atfork)(NULL, NULL, start_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
