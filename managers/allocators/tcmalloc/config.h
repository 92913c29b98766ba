/* What gperftools asks a configure script of the system, for Linux with glibc, and its defaults. */

#pragma once

/* tcmalloc.h asks whether it is included by the sources themselves. */
#define GPERFTOOLS_CONFIG_H_

#define HAVE_DECL_CFREE 0
#define HAVE_DECL_MEMALIGN 1
#define HAVE_DECL_NANOSLEEP 1
#define HAVE_DECL_POSIX_MEMALIGN 1
#define HAVE_DECL_PVALLOC 1
#define HAVE_DECL_SLEEP 1
#define HAVE_DECL_VALLOC 1
#define HAVE_FCNTL_H 1
#define HAVE_FEATURES_H 1
#define HAVE_MALLOC_H 1
#define HAVE_MMAP 1
#define HAVE_POLL_H 1
#define HAVE_PROGRAM_INVOCATION_NAME 1
#define HAVE_SBRK 1
#define HAVE_SCHED_H 1
#define HAVE_STRUCT_MALLINFO 1
#define HAVE_STRUCT_MALLINFO2 1
#define HAVE_SYS_CDEFS_H 1
#define HAVE_SYS_SYSCALL_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_SYS_UCONTEXT_H 1
#define HAVE_UCONTEXT_H 1
#define HAVE_UNISTD_H 1
#define HAVE___ATTRIBUTE__ 1
#define HAVE___ATTRIBUTE__ALIGNED_FN 1
#define HAVE___ENVIRON 1

#define PERFTOOLS_DLL_DECL
#define PERFTOOLS_DLL_DECL_FOR_UNITTESTS
#define __STDC_FORMAT_MACROS 1
