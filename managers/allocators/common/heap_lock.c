#define _GNU_SOURCE
#include "heap_lock.h"

/* Recursive, because members of an allocator's malloc family call each other. */
static const pthread_mutex_t unlocked = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_mutex_t tare_heap_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void before_fork(void) { pthread_mutex_lock(&tare_heap_lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&tare_heap_lock); }

static void after_fork_in_child(void) { tare_heap_lock = unlocked; }

__attribute__((constructor)) static void handle_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
