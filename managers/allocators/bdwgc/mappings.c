/* Private memory that the program maps itself is searched for pointers too: interpreters and
   arenas keep objects there which hold the only pointer to memory of malloc. */

#include <gc/gc.h>
#include <gc/gc_mark.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bdwgc.h"

struct range {
  uintptr_t start, end;
};

/* Changed only under the collector's lock, so never while it collects. Full, it forgets: with so
   many mappings the kernel's own limit is near. */
enum { MAX_RANGES = 60000 };
static struct range* ranges;
static size_t count;
static int watching;
static GC_push_other_roots_proc push_threads;

static void append(uintptr_t start, uintptr_t end) {
  if (start < end && count < MAX_RANGES) ranges[count++] = (struct range){start, end};
}

static void* remove_range(void* argument) {
  const struct range gone = *(struct range*)argument;
  for (size_t i = count; i-- > 0;) {
    const struct range had = ranges[i];
    if (gone.start >= had.end || gone.end <= had.start) continue;
    ranges[i] = ranges[--count];
    append(had.start, gone.start < had.end ? gone.start : had.end);
    append(gone.end > had.start ? gone.end : had.start, had.end);
  }
  return NULL;
}

static void* add_range(void* argument) {
  const struct range added = *(struct range*)argument;
  remove_range(argument);
  append(added.start, added.end);
  return NULL;
}

static void change(void* (*how)(void*), void* address, size_t size) {
  if (!watching || size == 0) return;
  const uintptr_t page = 4095;
  struct range range = {(uintptr_t)address & ~page, ((uintptr_t)address + size + page) & ~page};
  GC_call_with_alloc_lock(how, &range);
}

static void GC_CALLBACK push(void) {
  for (size_t i = 0; i < count; i++) GC_push_all((void*)ranges[i].start, (void*)ranges[i].end);
  push_threads();
}

static int can_hold_pointers(int protection) {
  return (protection & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE);
}

void* tare_system_mmap(void* address, size_t size, int protection, int flags, int file, off_t at) {
  return (void*)syscall(SYS_mmap, address, size, protection, flags, file, at);
}

int tare_system_munmap(void* address, size_t size) {
  return (int)syscall(SYS_munmap, address, size);
}

void* mmap(void* address, size_t size, int protection, int flags, int file, off_t at) {
  void* mapped = tare_system_mmap(address, size, protection, flags, file, at);
  if (mapped == MAP_FAILED) return mapped;
  /* Space reserved far beyond what is used must not be read through at each collection. */
  const int searched =
      can_hold_pointers(protection) && (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_NORESERVE) == 0;
  if (searched || (flags & MAP_FIXED) != 0)
    change(searched ? add_range : remove_range, mapped, size);
  return mapped;
}

void* mmap64(void* address, size_t size, int protection, int flags, int file, off_t at)
    __attribute__((alias("mmap")));

int munmap(void* address, size_t size) {
  change(remove_range, address, size);
  return tare_system_munmap(address, size);
}

void* mremap(void* address, size_t size, size_t new_size, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : NULL;
  va_end(rest);
  change(remove_range, address, size);
  void* moved = (void*)syscall(SYS_mremap, address, size, new_size, flags, wanted);
  if (moved == MAP_FAILED) {
    change(add_range, address, size);
  } else {
    change(add_range, moved, new_size);
  }
  return moved;
}

int mprotect(void* address, size_t size, int protection) {
  const int searched = can_hold_pointers(protection);
  if (!searched) change(remove_range, address, size);
  const int error = (int)syscall(SYS_mprotect, address, size, protection);
  if (searched && error == 0) change(add_range, address, size);
  return error;
}

void tare_start_mappings(void) {
  void* table = tare_system_mmap(NULL, MAX_RANGES * sizeof *ranges, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED) return;
  ranges = table;
  push_threads = GC_get_push_other_roots();
  GC_set_push_other_roots(push);
  watching = 1;
}
