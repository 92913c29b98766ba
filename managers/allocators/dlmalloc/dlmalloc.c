/* Lea's malloc as it is, plus what a program with threads needs when it forks: the child must not
   inherit a lock that a thread it does not have would have released. */

#include <pthread.h>

#include <dlmalloc.c>

static void before_fork(void) { (void)ACQUIRE_LOCK(&gm->mutex); }

static void after_fork_in_parent(void) { RELEASE_LOCK(&gm->mutex); }

static void after_fork_in_child(void) { (void)INITIAL_LOCK(&gm->mutex); }

__attribute__((constructor)) static void handle_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
