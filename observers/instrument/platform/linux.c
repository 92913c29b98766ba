// SPDX-License-Identifier: GPL-2.0-or-later
#include "linux.h"

enum { GUARD_INSTALL = 102, GUARD_REMOVE = 103 };  // madvise(2), since Linux 6.13
enum { GET_AUXILIARY_VECTOR = 0x41555856 };        // prctl(2), since Linux 6.4

Bool map_at(Addr start, SizeT bytes, UInt flags, Int file) {
  const SysRes result = VG_(am_do_mmap_NO_NOTIFY)(start, bytes, VKI_PROT_READ | VKI_PROT_WRITE,
                                                  flags | VKI_MAP_NORESERVE, (UInt)file, 0);
  return !sr_isError(result) && sr_Res(result) == start;
}

Int open_memory(SizeT bytes) {
  const SysRes made = VG_(do_syscall)(__NR_memfd_create, (UWord) "tare", 0, 0, 0, 0, 0, 0, 0);
  if (sr_isError(made)) return -1;
  const Int file = (Int)sr_Res(made);
  if (!sr_isError(VG_(do_syscall)(__NR_ftruncate, (UWord)file, bytes, 0, 0, 0, 0, 0, 0)))
    return file;
  VG_(close)(file);
  return -1;
}

Bool ends_handler(UInt syscall) {
#if defined(VGA_x86)
  if (syscall == __NR_sigreturn) return True;
#endif
  return syscall == __NR_rt_sigreturn;
}

Bool starts_program(UInt syscall) { return syscall == __NR_execve || syscall == __NR_execveat; }

static Mapping growth_of_heap(Addr end) {
  static Addr end_before;
  const Bool has_grown = end_before != 0 && end > end_before;
  const Mapping growth = {.start = end_before, .bytes = has_grown ? end - end_before : 0};
  end_before = end;
  return growth;
}

static Mapping advised(const UWord* arguments, UWord advice) {
  const SizeT bytes = arguments[2] == advice ? VG_PGROUNDUP(arguments[1]) : 0;
  return (Mapping){.start = arguments[0], .bytes = bytes};
}

Mapping mapping_of(UInt syscall, const UWord* arguments, Addr result) {
  switch (syscall) {
    case __NR_brk:
      return growth_of_heap(result);
    case __NR_mmap:
      return (Mapping){.start = result, .bytes = arguments[1]};
    case __NR_mremap:
      return (Mapping){.start = result, .bytes = arguments[2]};
    case __NR_munmap:
      return (Mapping){.start = arguments[0], .bytes = arguments[1], .is_gone = True};
    case __NR_madvise:
      return advised(arguments, GUARD_REMOVE);
    default:
      return (Mapping){.bytes = 0};
  }
}

Mapping guard_of(UInt syscall, const UWord* arguments) {
  return syscall == __NR_madvise ? advised(arguments, GUARD_INSTALL) : (Mapping){.bytes = 0};
}

void give_auxiliary_vector(UInt syscall, const UWord* arguments, SysRes result) {
  if (syscall != __NR_prctl || arguments[0] != GET_AUXILIARY_VECTOR || sr_isError(result)) return;
  SizeT words = 2;
  while (VG_(client_auxv)[words - 2] != 0) words += 2;  // AT_NULL
  const SizeT room = arguments[2] < sr_Res(result) ? arguments[2] : sr_Res(result);
  const SizeT bytes = words * sizeof(UWord) < room ? words * sizeof(UWord) : room;
  VG_(memset)((void*)arguments[1], 0, room);
  VG_(memcpy)((void*)arguments[1], VG_(client_auxv), bytes);
}
