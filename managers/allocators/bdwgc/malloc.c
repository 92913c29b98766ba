/* The malloc family over the collector. */

#include <elf.h>
#include <errno.h>
#include <gc/gc.h>
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bdwgc.h"

/* Serves what is asked for before the collector runs: the dynamic linker allocates first. Lies in
   .bss, so the collector searches it for pointers. */
enum { EARLY_BYTES = 256 * 1024, EARLY_HEADER = 16 };
static _Alignas(16) unsigned char early[EARLY_BYTES];
static size_t early_used;

static int ready, starting;
static int free_is_honoured;

static void start(void);

/* The constructors of libraries may run before that of this object, and need more than is here. By
   then libc has an environment. */
static inline int is_ready(size_t size) {
  if (__builtin_expect(!ready, 0) && environ != NULL &&
      (early_used > EARLY_BYTES / 2 || size > EARLY_BYTES / 4))
    start();
  return ready;
}

/* The code of the dynamic linker. What it allocates (thread vectors, thread-local storage of
   libraries) can be reachable from nothing but an idle thread's stack in a cache of libc, so it
   must not be collected. */
static uintptr_t linker_start, linker_end;

static int from_linker(void* caller) {
  return (uintptr_t)caller - linker_start < linker_end - linker_start;
}

#define CALLER __builtin_return_address(0)

static int is_early(const void* p) { return (uintptr_t)p - (uintptr_t)early < EARLY_BYTES; }

static void* allocate_early(size_t alignment, size_t size) {
  if (alignment < EARLY_HEADER) alignment = EARLY_HEADER;
  uintptr_t start = (uintptr_t)early + early_used + EARLY_HEADER;
  uintptr_t object = (start + alignment - 1) & ~(uintptr_t)(alignment - 1);
  uintptr_t used = object - (uintptr_t)early;
  if (size > EARLY_BYTES || used > EARLY_BYTES - size) abort();
  ((size_t*)object)[-1] = size;
  early_used = (used + size + 15) & ~(size_t)15;
  return (void*)object;
}

static void* no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

static inline void* allocate(size_t size, void* caller) {
  if (__builtin_expect(!is_ready(size), 0)) return allocate_early(0, size);
  if (__builtin_expect(size > PTRDIFF_MAX, 0)) return no_memory();
  void* object =
      __builtin_expect(from_linker(caller), 0) ? GC_malloc_uncollectable(size) : GC_malloc(size);
  return __builtin_expect(object != NULL, 1) ? object : no_memory();
}

static size_t usable(const void* p) {
  if (is_early(p)) return ((const size_t*)p)[-1];
  const char* base = GC_base((void*)p);
  /* The last byte is the collector's, so that a pointer just past an object still is in it. */
  return base == NULL ? 0 : GC_size(base) - (size_t)((const char*)p - base) - 1;
}

static void release(void* p) {
  if (p == NULL || is_early(p)) return;
  void* base = GC_base(p);
  if (base != NULL) GC_free(base);
}

void* malloc(size_t size) { return allocate(size, CALLER); }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return no_memory();
  /* The collector's memory is zero. */
  return allocate(bytes, CALLER);
}

void free(void* p) {
  if (free_is_honoured || __builtin_expect(from_linker(CALLER), 0)) release(p);
}

void* realloc(void* p, size_t size) {
  if (p == NULL) return allocate(size, CALLER);
  int reclaim = free_is_honoured || from_linker(CALLER);
  if (size == 0) {
    if (reclaim) release(p);
    return NULL;
  }
  size_t old = usable(p);
  if (size <= old && size >= old / 2) return p;
  void* object = allocate(size, CALLER);
  if (object == NULL) return NULL;
  memcpy(object, p, size < old ? size : old);
  if (reclaim) release(p);
  return object;
}

void* memalign(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  if (!is_ready(size)) return allocate_early(alignment, size);
  if (size > PTRDIFF_MAX - alignment) return no_memory();
  if (from_linker(CALLER)) {
    /* Uncollectable objects cannot be aligned by the collector. */
    char* object = GC_malloc_uncollectable(size + alignment);
    if (object == NULL) return no_memory();
    return (void*)(((uintptr_t)object + alignment - 1) & ~(uintptr_t)(alignment - 1));
  }
  void* object = GC_memalign(alignment, size);
  return object != NULL ? object : no_memory();
}

size_t malloc_usable_size(void* p) { return p == NULL ? 0 : usable(p); }

static int find_linker(struct dl_phdr_info* info, size_t size, void* base) {
  (void)size;
  if (info->dlpi_addr != *(ElfW(Addr)*)base) return 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
      linker_start = info->dlpi_addr + segment->p_vaddr;
      linker_end = linker_start + segment->p_memsz;
    }
  }
  return 1;
}

__attribute__((constructor(101))) static void start(void) {
  if (starting) return;
  starting = 1;
  ElfW(Addr) linker = getauxval(AT_BASE);
  dl_iterate_phdr(find_linker, &linker);
  const char* value = getenv("TARE_BDWGC_FREE");
  free_is_honoured = value != NULL && strcmp(value, "honoured") == 0;
  GC_set_handle_fork(1);
  /* Its warnings would be seen as output of the program. */
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_init();
  tare_start_threads();
  tare_start_mappings();
  ready = 1;
}
