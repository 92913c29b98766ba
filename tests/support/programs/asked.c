// A manager of its own. Its malloc_usable_size waits until it is asked in another thread, while
// there is one at work, and lets a handler allocate.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

enum { THREADS = 3, OBJECTS = 400, EACH_SIGNAL = 40 };

static _Alignas(16) char arena[1 << 22];
static atomic_size_t used;
static atomic_int asked;

void* malloc(size_t size) {
  const size_t bytes = (size + 31) & ~(size_t)15;
  const size_t at = atomic_fetch_add(&used, bytes);
  if (at + bytes > sizeof arena) {
    errno = ENOMEM;
    return NULL;
  }
  *(size_t*)(arena + at) = size;
  return arena + at + 16;
}

void free(void* object) { (void)object; }

void* calloc(size_t count, size_t size) { return malloc(count * size); }

void* realloc(void* object, size_t size) {
  void* const moved = malloc(size);
  if (object != NULL && moved != NULL) {
    const size_t before = *(size_t*)((char*)object - 16);
    memcpy(moved, object, before < size ? before : size);
  }
  return moved;
}

static atomic_int ready;
static atomic_int at_work = THREADS;
static atomic_size_t last_asked;

static void wait_for_another(void) {
  const size_t self = (size_t)pthread_self();
  atomic_store(&last_asked, self);
  while (atomic_load(&last_asked) == self && atomic_load(&at_work) > 1) sched_yield();
}

size_t malloc_usable_size(void* object) {
  if (atomic_load(&ready)) {
    wait_for_another();
    if (atomic_fetch_add(&asked, 1) % EACH_SIGNAL == 0) raise(SIGUSR1);
  }
  return *(size_t*)((char*)object - 16);
}

static void handle(int signal) {
  (void)signal;
  free(malloc(17));
}

static void* allocate(void* nothing) {
  while (!atomic_load(&ready)) sched_yield();
  for (int i = 0; i < OBJECTS; ++i) {
    char* const object = malloc(40);
    object[0] = 1;
    free(object);
  }
  atomic_fetch_sub(&at_work, 1);
  return nothing;
}

int main(void) {
  signal(SIGUSR1, handle);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) pthread_create(&threads[i], NULL, allocate, NULL);
  atomic_store(&ready, 1);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  return atomic_load(&asked) == 0;
}
