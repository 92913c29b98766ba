/* Lea's malloc, with one mend, plus what a program with threads needs when it forks: the child must
   not inherit a lock that a thread it does not have would have released. */

#include <pthread.h>
#include <stddef.h>

/* Where Lea's realloc grows a mapped object by mremap, it forgets the room between the start of the
   mapping and an object that was aligned, and gives too little memory. Such an object moves
   instead. In that function `offset` is that room; where the macro is used elsewhere there is none.
 */
static const size_t offset = 0;
#define MREMAP(start, bytes, wanted, flags) \
  (offset == 0 ? mremap((start), (bytes), (wanted), (flags)) : MFAIL)

#include <dlmalloc.c>

static void before_fork(void) { (void)ACQUIRE_LOCK(&gm->mutex); }

static void after_fork_in_parent(void) { RELEASE_LOCK(&gm->mutex); }

static void after_fork_in_child(void) { (void)INITIAL_LOCK(&gm->mutex); }

__attribute__((constructor)) static void handle_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
