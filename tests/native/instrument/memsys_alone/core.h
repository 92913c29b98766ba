// SPDX-License-Identifier: GPL-2.0-or-later
// Stands in for the instrument's core.h, so that the simulator of observers/instrument/memsys can
// be built as an ordinary program and tried with sanitizers.

#ifndef TARE_MEMSYS_ALONE_CORE_H
#define TARE_MEMSYS_ALONE_CORE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned char UChar;
typedef unsigned short UShort;
typedef int Int;
typedef unsigned int UInt;
typedef unsigned long long ULong;
typedef unsigned long Addr;
typedef size_t SizeT;
typedef ptrdiff_t PtrdiffT;
typedef char HChar;
typedef unsigned char Bool;
typedef FILE VgFile;
enum { False, True };

#define VG_ROUNDUP(number, unit) (((number) + (unit) - 1) & ~((SizeT)(unit) - 1))
#define VG_(name) alone_##name
#define alone_memset memset
#define alone_memcpy memcpy
#define alone_memcmp memcmp
#define alone_strcmp strcmp
#define alone_strncpy strncpy
#define alone_strtok_r strtok_r
#define alone_fprintf fprintf
#define alone_free free
#ifdef ALONE_GIVES_MEMORY  // whoever is linked with it
void* alone_give(size_t size);
#define alone_malloc(reason, size) alone_give(size)
#else
#define alone_malloc(reason, size) malloc(size)
#endif
#define alone_calloc(reason, count, size) calloc(count, size)
#define alone_realloc(reason, block, size) realloc(block, size)
#define alone_strtoull10(text, end) strtoull(text, end, 10)

#endif
