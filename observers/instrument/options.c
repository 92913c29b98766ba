// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

Options options = {.recording = {.last_use = True, .sites = True, .usable_size = "no"}};

static Bool process_option(const HChar* argument) {
  if (VG_STR_CLO(argument, "--count-folder", options.count_folder)) {
  } else if (VG_BOOL_CLO(argument, "--count-sites", options.count_sites)) {
  } else if (VG_STR_CLO(argument, "--memsys", options.memsys_models)) {
  } else if (VG_STR_CLO(argument, "--memsys-folder", options.memsys_folder)) {
  } else if (VG_STR_CLO(argument, "--events", options.events_file)) {
  } else if (VG_STR_CLO(argument, "--code-folder", options.code_folder)) {
  } else if (VG_STR_CLO(argument, "--trace-folder", options.recording.folder)) {
  } else if (VG_BOOL_CLO(argument, "--last-use", options.recording.last_use)) {
  } else if (VG_BOOL_CLO(argument, "--sites", options.recording.sites)) {
  } else if (VG_BOOL_CLO(argument, "--pointers", options.recording.pointers)) {
  } else if (VG_BINT_CLO(argument, "--reachability", options.recording.reachability_bytes, 0,
                         (Long)1 << 62)) {
  } else if (VG_STR_CLO(argument, "--usable-size", options.recording.usable_size)) {
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

void options_initialise(void) {
  VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
}

// Figures that leave out the objects of a program must not pass for those of one that has none.
static void refuse_what_is_not_followed(void) {
  if (FOLLOWS_MEMORY) return;
  if (options.code_folder != NULL && options.recording.folder == NULL &&
      options.memsys_models == NULL && !options.count_sites)
    return;
  VG_(umsg)("of a 32-bit program only the executed code is counted, as tare breakdown does\n");
  VG_(exit)(1);
}

// The tree of call sites has its files in one folder.
static void refuse_two_trees(void) {
  if (!options.count_sites || (options.count_folder != NULL && options.recording.folder == NULL))
    return;
  VG_(umsg)("--count-sites is for --count-folder without --trace-folder\n");
  VG_(exit)(1);
}

void options_check(void) {
  refuse_what_is_not_followed();
  refuse_two_trees();
  if (options.recording.folder == NULL) options.recording = (RecordingOptions){.usable_size = "no"};
}
