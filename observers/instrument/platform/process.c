// SPDX-License-Identifier: GPL-2.0-or-later
#include "process.h"

enum { SHARED_MEMORY = 0x100, SHARED_FOLDER = 0x200, SHARED_FILES = 0x400 };  // clone(2)
enum { OF_CLONES = (Int)0x80000000, NOT_WAITING = 1 };                        // wait(2)
enum { WAIT_PRIVATE = 128, WAKE_PRIVATE = 129 };                              // futex(2)
enum { TIMED_OUT = 110 };                                                     // errno(3)

// priv_syswrap-linux.h of the core, which has one for each processor.
#if defined(VGA_arm64)
#define CLONE_PROCESS do_syscall_clone_arm64_linux
#else
#define CLONE_PROCESS do_syscall_clone_amd64_linux
#endif
extern Long CLONE_PROCESS(Word (*work)(void*), void* stack_end, Long flags, void* argument,
                          Int* child_tid, Int* parent_tid, void* thread_area);

static UWord call(UWord number, UWord first, UWord second, UWord third, UWord fourth) {
  const SysRes result = VG_(do_syscall)(number, first, second, third, fourth, 0, 0, 0, 0);
  return sr_isError(result) ? -sr_Err(result) : sr_Res(result);
}

Int start_process(Word (*work)(void*), void* stack_end) {
  const ULong all = ~(ULong)0;
  ULong before = 0;
  call(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (UWord)&all, (UWord)&before, sizeof all);
  const Word made = CLONE_PROCESS(work, stack_end, SHARED_MEMORY | SHARED_FOLDER | SHARED_FILES,
                                  NULL, NULL, NULL, NULL);
  call(__NR_rt_sigprocmask, VKI_SIG_SETMASK, (UWord)&before, 0, sizeof before);
  return made > 0 ? (Int)made : -1;
}

Bool process_has_ended(Int process) {
  return call(__NR_wait4, (UWord)process, 0, NOT_WAITING | OF_CLONES, 0) != 0;
}

void await_process(Int process) { call(__NR_wait4, (UWord)process, 0, (UWord)OF_CLONES, 0); }

Int parent_process(void) { return (Int)call(__NR_getppid, 0, 0, 0, 0); }

void exit_process(void) { call(__NR_exit, 0, 0, 0, 0); }

UInt processors(void) {
  enum { WORDS = 128 };
  ULong mask[WORDS];
  const Word bytes = (Word)call(__NR_sched_getaffinity, 0, sizeof mask, (UWord)mask, 0);
  UInt found = 0;
  for (Word i = 0; i < bytes / (Word)sizeof *mask; ++i)
    found += (UInt)__builtin_popcountll(mask[i]);
  return found;
}

Bool futex_wait(void* word, UInt value, UInt milliseconds) {
  struct vki_timespec patience = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = milliseconds % 1000 * 1000000};
  return call(__NR_futex, (UWord)word, WAIT_PRIVATE, value, (UWord)&patience) != -(UWord)TIMED_OUT;
}

void futex_wake(void* word) { call(__NR_futex, (UWord)word, WAKE_PRIVATE, 1, 0); }
