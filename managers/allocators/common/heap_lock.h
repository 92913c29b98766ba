/* One lock for allocators whose sources have none. A process with one thread does not touch it. It
   is held during a fork, so the child finds the heap in order. */

#pragma once

#include <pthread.h>
#include <sys/single_threaded.h>

extern pthread_mutex_t tare_heap_lock;

static inline void lock_heap(void) {
  if (!__libc_single_threaded) pthread_mutex_lock(&tare_heap_lock);
}

static inline void unlock_heap(void) {
  if (!__libc_single_threaded) pthread_mutex_unlock(&tare_heap_lock);
}
