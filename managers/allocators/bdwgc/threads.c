/* Threads made known to the collector.

   The collector's own wrapper of pthread_create leaves out a thread's local storage and forgets a
   thread before the destructors of its thread-local objects run. Here a thread is known from before
   its first instruction until its last destructor, and from the very top of its stack, where its
   local storage and thread-specific values lie. */

#include <errno.h>
#include <gc/gc.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>

#include "bdwgc.h"
#include "tare/platform/thread_storage.h"

/* Keeps a thread's result alive from its end until someone joins it. */
struct thread {
  struct thread* next;
  pthread_t id;
  void* result;
  int rounds;
  int ended;
  int detached;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct thread* threads;
static pthread_key_t end_key;

static int (*system_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
static int (*system_join)(pthread_t, void**);
static int (*system_detach)(pthread_t);
static void (*system_exit)(void*) __attribute__((noreturn));
static int (*system_sigmask)(int, const sigset_t*, sigset_t*);
static int (*system_sigprocmask)(int, const sigset_t*, sigset_t*);

static void* next_symbol(const char* name) { return dlsym(RTLD_NEXT, name); }

/* The caller holds the lock. */
static void forget(struct thread* thread) {
  for (struct thread** link = &threads; *link != NULL; link = &(*link)->next) {
    if (*link == thread) {
      *link = thread->next;
      break;
    }
  }
  GC_free(thread);
}

static struct thread* find(pthread_t id) {
  struct thread* thread = threads;
  while (thread != NULL && !pthread_equal(thread->id, id)) thread = thread->next;
  return thread;
}

static void end_thread(void* argument) {
  struct thread* thread = argument;
  /* Other keys' destructors may still run: be the last of the last round. */
  if (++thread->rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    pthread_setspecific(end_key, thread);
    return;
  }
  pthread_mutex_lock(&lock);
  thread->ended = 1;
  if (thread->detached) forget(thread);
  pthread_mutex_unlock(&lock);
  GC_unregister_my_thread();
}

struct start {
  void* (*run)(void*);
  void* argument;
  struct thread* thread;
  sem_t known;
};

static void* start_thread(void* argument) {
  struct start* start = argument;
  void* (*run)(void*) = start->run;
  void* run_argument = start->argument;
  struct thread* thread = start->thread;
  struct GC_stack_base base;
  GC_get_stack_base(&base);
  GC_register_my_thread(&base);
  thread->id = pthread_self();
  pthread_mutex_lock(&lock);
  thread->next = threads;
  threads = thread;
  pthread_mutex_unlock(&lock);
  pthread_setspecific(end_key, thread);
  sem_post(&start->known);
  thread->result = run(run_argument);
  return thread->result;
}

int pthread_create(pthread_t* id, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  struct thread* thread = GC_malloc_uncollectable(sizeof *thread);
  if (thread == NULL) return EAGAIN;
  int state = PTHREAD_CREATE_JOINABLE;
  if (attributes != NULL) pthread_attr_getdetachstate(attributes, &state);
  thread->detached = state == PTHREAD_CREATE_DETACHED;
  struct start start = {run, argument, thread, {{0}}};
  sem_init(&start.known, 0, 0);
  /* Until the thread is known, nothing looks at its stack, and libc already keeps objects there. */
  GC_disable();
  int error = system_create(id, attributes, start_thread, &start);
  if (error == 0) {
    while (sem_wait(&start.known) != 0) {
    }
  } else {
    GC_free(thread);
  }
  GC_enable();
  sem_destroy(&start.known);
  return error;
}

void pthread_exit(void* result) {
  struct thread* thread = pthread_getspecific(end_key);
  if (thread != NULL) thread->result = result;
  system_exit(result);
}

int pthread_join(pthread_t id, void** result) {
  int error = system_join(id, result);
  if (error == 0) {
    pthread_mutex_lock(&lock);
    struct thread* thread = find(id);
    if (thread != NULL) forget(thread);
    pthread_mutex_unlock(&lock);
  }
  return error;
}

int pthread_detach(pthread_t id) {
  pthread_mutex_lock(&lock);
  struct thread* thread = find(id);
  if (thread != NULL) {
    thread->detached = 1;
    if (thread->ended) forget(thread);
  }
  pthread_mutex_unlock(&lock);
  return system_detach(id);
}

/* A thread that blocks the collector's signals could not be stopped. */
static const sigset_t* without_ours(int how, const sigset_t* set, sigset_t* copy) {
  if (set == NULL || how == SIG_UNBLOCK) return set;
  *copy = *set;
  sigdelset(copy, GC_get_suspend_signal());
  sigdelset(copy, GC_get_thr_restart_signal());
  return copy;
}

int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) {
  sigset_t copy;
  return tare_system_sigmask(how, without_ours(how, set, &copy), old);
}

int sigprocmask(int how, const sigset_t* set, sigset_t* old) {
  sigset_t copy;
  if (system_sigprocmask == NULL) system_sigprocmask = next_symbol("sigprocmask");
  return system_sigprocmask(how, without_ours(how, set, &copy), old);
}

int tare_system_sigmask(int how, const sigset_t* set, sigset_t* old) {
  if (system_sigmask == NULL) system_sigmask = next_symbol("pthread_sigmask");
  return system_sigmask(how, set, old);
}

/* The first thread's local storage was laid out by the dynamic linker, away from its stack. In
   libc's own record of the thread, thread-specific values start. */
static void add_first_thread(void) {
  const struct tare_thread_storage storage = tare_find_thread_storage();
  const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
  GC_add_roots((void*)((thread - storage.below) & ~(uintptr_t)7), (void*)(thread + storage.above));
}

void tare_start_threads(void) {
  system_create = next_symbol("pthread_create");
  system_join = next_symbol("pthread_join");
  system_detach = next_symbol("pthread_detach");
  system_exit = next_symbol("pthread_exit");
  pthread_key_create(&end_key, end_thread);
  GC_allow_register_threads();
  add_first_thread();
}
