// SPDX-License-Identifier: GPL-2.0-or-later
// What the instrument needs of Valgrind's core: the public tool headers, and a few entry points
// that only the core's own headers declare. A distribution's package lacks these; their
// declarations are copied here, from the versions that distribution/distribution.cmake accepts.

#ifndef TARE_INSTRUMENT_CORE_H
#define TARE_INSTRUMENT_CORE_H

#include "config.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_basics.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_guest.h"
#include "pub_tool_hashtable.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#ifdef TARE_PINNED_CORE

#include "pub_core_aspacemgr.h"
#include "pub_core_clientstate.h"
#include "pub_core_debuginfo.h"
#include "pub_core_libcfile.h"
#include "pub_core_syscall.h"
#include "pub_core_transtab.h"

#else

// pub_core_debuginfo.h: the symbols of an object, each at an address with all its names.
typedef struct {
  Addr main;
} SymAVMAs;
extern Int VG_(DebugInfo_syms_howmany)(const DebugInfo* info);
extern void VG_(DebugInfo_syms_getidx)(const DebugInfo* info, Int index, SymAVMAs* address,
                                       UInt* size, const HChar** first_name,
                                       const HChar*** other_names, Bool* is_text, Bool* is_ifunc,
                                       Bool* is_global);

// pub_core_libcfile.h: bytes of a file, or -1.
extern Long VG_(fsize)(Int file);

// pub_core_libcfile.h: moves a file descriptor out of the range that the program sees, and marks it
// to be closed at an exec.
extern Int VG_(safe_fd)(Int file);

// pub_core_aspacemgr.h: maps memory that the core's own manager of addresses does not hear of.
extern SysRes VG_(am_do_mmap_NO_NOTIFY)(Addr start, SizeT bytes, UInt protection, UInt flags,
                                        UInt file, Off64T offset);

// pub_core_syscall.h
extern SysRes VG_(do_syscall)(UWord number, UWord, UWord, UWord, UWord, UWord, UWord, UWord, UWord);

// pub_core_transtab.h: what was translated of this code is not used again.
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar* who);

// pub_core_clientstate.h: the limits of the program, as the kernel gave them, and what the core
// made of the vector of pairs that the kernel gave it, up to AT_NULL.
extern struct vki_rlimit VG_(client_rlimit_data);
extern UWord* VG_(client_auxv);

#endif

#endif
