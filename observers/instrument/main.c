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

#include "core.h"
#include "costs.h"
#include "counts.h"
#include "entries.h"
#include "events.h"
#include "executions.h"
#include "memsys/feed.h"
#include "memsys/output.h"
#include "objects.h"
#include "proof.h"
#include "reachability.h"
#include "regions.h"
#include "report.h"
#include "sites.h"
#include "threads.h"
#include "trace.h"
#include "translate.h"

TraceOptions trace_options;
static const HChar* count_folder;
static Bool count_sites;
static const HChar* memsys_models;
static const HChar* memsys_folder;
static const HChar* events_file;
static const HChar* code_folder;

// ---- life of the process ----

static void write_files(const HChar* end) {
  const ULong clock = threads_clock();
  if (costs_are_on()) costs_write();
  if (count_folder != NULL) report_write(count_folder, end, clock);
  if (FOLLOWS_MEMORY) trace_finish(end, clock);
  if (feed_is_on() && memsys_folder != NULL) output_write(memsys_folder, end);
  if (executions_are_on()) executions_write(code_folder, end, clock);
  if (PROVES_MANAGER) proof_write();
}

static Bool is_sigreturn(UInt number) {
#if defined(VGA_x86)
  if (number == __NR_sigreturn) return True;
#endif
  return number == __NR_rt_sigreturn;
}

static void before_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count) {
  (void)arguments, (void)count;
  if (is_sigreturn(number)) threads_before_sigreturn(thread);
  // Nothing of this process is left to write a file once the exec has worked.
  if (number == __NR_execve || number == __NR_execveat) write_files("exec");
}

static void note_mapping(ThreadId thread, UInt number, const UWord* arguments, Addr result) {
  static Addr end_of_heap;  // that grows by brk
  const Bool of_manager = is_in_manager(thread);
  if (number == __NR_brk) {
    if (end_of_heap != 0 && result > end_of_heap)
      reachability_note_mapping(end_of_heap, result - end_of_heap, of_manager);
    end_of_heap = result;
  }
  if (number == __NR_mmap) reachability_note_mapping(result, arguments[1], of_manager);
  if (number == __NR_mremap) reachability_note_mapping(result, arguments[2], of_manager);
  if (number == __NR_munmap) reachability_note_mapping(arguments[0], arguments[1], False);
}

static void after_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count,
                          SysRes result) {
  (void)count;
  if (FOLLOWS_MEMORY && !sr_isError(result))
    note_mapping(thread, number, arguments, sr_Res(result));
}

// What the kernel reads and writes for the program.
static void note_kernel_s_use(CorePart part, ThreadId thread, Addr address, SizeT size) {
  if (size == 0 || (part != Vg_CoreSysCall && part != Vg_CoreSysCallArgInMem)) return;
  (void)thread;
  object_used(address, threads_clock());
}

static void note_kernel_s_read(CorePart part, ThreadId thread, const HChar* what, Addr address,
                               SizeT size) {
  (void)what;
  note_kernel_s_use(part, thread, address, size);
}

static void note_kernel_s_read_of_text(CorePart part, ThreadId thread, const HChar* what,
                                       Addr address) {
  note_kernel_s_read(part, thread, what, address, 1);
}

static void start_child(ThreadId thread) {
  (void)thread;
  report_forget_files();
  if (costs_are_on()) costs_start_child(report_base(count_folder));
  if (FOLLOWS_MEMORY) output_forget_file();
}

static void finish(Int exit_code) {
  (void)exit_code;
  threads_finish();
  write_files("exit");
}

// ---- options ----

static Bool process_option(const HChar* argument) {
  if (VG_STR_CLO(argument, "--count-folder", count_folder)) {
  } else if (VG_BOOL_CLO(argument, "--count-sites", count_sites)) {
  } else if (VG_STR_CLO(argument, "--memsys", memsys_models)) {
  } else if (VG_STR_CLO(argument, "--memsys-folder", memsys_folder)) {
  } else if (VG_STR_CLO(argument, "--events", events_file)) {
  } else if (VG_STR_CLO(argument, "--code-folder", code_folder)) {
  } else if (VG_STR_CLO(argument, "--trace-folder", trace_options.folder)) {
  } else if (VG_BOOL_CLO(argument, "--last-use", trace_options.last_use)) {
  } else if (VG_BOOL_CLO(argument, "--sites", trace_options.sites)) {
  } else if (VG_BOOL_CLO(argument, "--pointers", trace_options.pointers)) {
  } else if (VG_BINT_CLO(argument, "--reachability", trace_options.reachability_bytes, 0,
                         (Long)1 << 62)) {
  } else if (VG_STR_CLO(argument, "--usable-size", trace_options.usable_size)) {
  } else {
    return False;
  }
  return True;
}

static void print_usage(void) {
  VG_(printf)
  ("    --count-folder=DIR        write the counts of each process into DIR\n"
   "    --count-sites=no|yes      count also by call site [no]\n"
   "    --memsys=FILE             simulate the memory systems that FILE describes\n"
   "    --memsys-folder=DIR       write what each process met there into DIR\n"
   "    --events=FILE             count also what is named there\n"
   "    --code-folder=DIR         write how often each instruction was executed into DIR\n"
   "    --trace-folder=DIR        record the objects of each process into DIR, and of them:\n"
   "    --last-use=no|yes         when they were first and last used [yes]\n"
   "    --sites=no|yes            which calls led to them [yes]\n"
   "    --pointers=no|yes         stores of pointers to them [no]\n"
   "    --reachability=BYTES      search what is reachable every BYTES allocated [0: never]\n"
   "    --usable-size=no|glibc|call  how large they really are: by the words that glibc keeps, or "
   "by\n"
   "                              a call that nothing counts [no]\n");
}

static void print_debug_usage(void) {}

// Figures that leave out the objects of a program must not pass for those of one that has none.
static void refuse_what_is_not_followed(void) {
  if (FOLLOWS_MEMORY) return;
  if (code_folder != NULL && trace_options.folder == NULL && memsys_models == NULL && !count_sites)
    return;
  VG_(umsg)("of a 32-bit program only the executed code is counted, as tare breakdown does\n");
  VG_(exit)(1);
}

// The tree of call sites has its files in one folder.
static void refuse_two_trees(void) {
  if (!count_sites || (count_folder != NULL && !trace_is_on())) return;
  VG_(umsg)("--count-sites is for --count-folder without --trace-folder\n");
  VG_(exit)(1);
}

static void follow_memory(void) {
  if (memsys_models != NULL) feed_start(memsys_models);
  const Bool searches = trace_options.reachability_bytes != 0;
  objects_initialise(trace_options.last_use || trace_options.pointers || searches);
  if (searches) reachability_initialise((ULong)trace_options.reachability_bytes);
  if (trace_options.sites || count_sites) sites_initialise();
  if (count_sites) costs_begin(report_base(count_folder));
  if (trace_options.last_use) {
    VG_(track_pre_mem_read)(note_kernel_s_read);
    VG_(track_pre_mem_read_asciiz)(note_kernel_s_read_of_text);
    VG_(track_post_mem_write)(note_kernel_s_use);
  }
  trace_start();
}

static void after_options(void) {
  refuse_what_is_not_followed();
  refuse_two_trees();
  if (!trace_is_on()) trace_options = (TraceOptions){.usable_size = "no"};
  // A block that goes on past a branch contains calls, and instructions that may not be executed.
  if (trace_options.sites || count_sites || events_file != NULL || memsys_models != NULL ||
      code_folder != NULL)
    VG_(clo_vex_control).guest_chase = False;
  counts_reset();
  if (code_folder != NULL) executions_begin();
  if (events_file != NULL) events_read(events_file);
  if (FOLLOWS_MEMORY) follow_memory();
}

static void before_options(void) {
  VG_(details_name)("tareinst");
  VG_(details_version)(NULL);
  VG_(details_description)("what memory management costs");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the authors of Tare.");
  VG_(details_bug_reports_to)("the authors of Tare");
  VG_(basic_tool_funcs)(after_options, translate, finish);
  VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
  VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
  entries_initialise();
  trace_options = (TraceOptions){.last_use = True, .sites = True, .usable_size = "no"};
  threads_initialise();
  if (FOLLOWS_MEMORY) regions_initialise();
  VG_(atfork)(NULL, NULL, start_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
