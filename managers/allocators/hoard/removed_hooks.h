/* Hoard's wrapper also sets the malloc hooks that glibc removed in 2.34. These stand in for them,
   so that it compiles; nothing reads them. */

#pragma once

#include <stddef.h>
#ifdef __cplusplus
#include <cstdio>
#endif

static void* (*__malloc_hook)(size_t, const void*);
static void (*__free_hook)(void*, const void*);
static void* (*__realloc_hook)(void*, size_t, const void*);
static void* (*__memalign_hook)(size_t, size_t, const void*);

/* When the system has no memory Hoard says so with a lock held. Newer glibcs allocate to translate
   that, and would wait for the lock. */
#define perror(words) ((void)0)
