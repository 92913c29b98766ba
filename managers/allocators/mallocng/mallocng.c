/* musl's malloc family over mallocng, and what mallocng needs of a C library. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dynlink.h"
#include "libc.h"
#include "lock.h"

void __malloc_atfork(int who);
uintptr_t tare_break(uintptr_t end);

void* malloc(size_t size) { return __libc_malloc_impl(size); }
void* realloc(void* object, size_t size) { return __libc_realloc(object, size); }
void free(void* object) { __libc_free(object); }

size_t* tare_auxv(void) {
  static size_t random[] = {AT_RANDOM, 0, 0};
  random[1] = getauxval(AT_RANDOM);
  return random;
}

/* Moves the end of the data segment, or tells it where END is 0, in agreement with what others do
   by sbrk: where they have moved it, mallocng is refused and maps memory instead. */
uintptr_t tare_break(uintptr_t end) {
  static uintptr_t ours;
  const uintptr_t now = (uintptr_t)sbrk(0);
  if (ours == 0) ours = now;
  if (end != 0 && now <= ours && brk((void*)end) == 0) return ours = end;
  return now;
}

enum { FREE, HELD, AWAITED };

void tare_lock(int* word) {
  int seen = FREE;
  if (__atomic_compare_exchange_n(word, &seen, HELD, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
  const int saved = errno;
  while (__atomic_exchange_n(word, AWAITED, __ATOMIC_ACQUIRE) != FREE)
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0);
  errno = saved;
}

void tare_unlock(int* word) {
  if (__atomic_load_n(word, __ATOMIC_RELAXED) == FREE) return;
  if (__atomic_exchange_n(word, FREE, __ATOMIC_RELEASE) == AWAITED)
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void before_fork(void) { __malloc_atfork(-1); }

static void after_fork_in_parent(void) { __malloc_atfork(0); }

static void after_fork_in_child(void) { __malloc_atfork(1); }

__attribute__((constructor)) static void handle_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
