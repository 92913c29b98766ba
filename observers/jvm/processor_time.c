#define _GNU_SOURCE
#include "processor_time.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST_THREADS = 4096,
  MOST_COMPILERS = 64,
  NAME_BYTES = 16,
  LOOKS_UNTIL_NAMED = 3,     // a new thread still bears its creator's name for a moment
  LOOKS_WITHOUT_NAME = 100,  // and on a busy machine that of the JVM's first one for longer
  LOOK_MILLISECONDS = 100,
  MOST_LINKS = 128,  // with more threads than that a collection does not look for new ones
};

static const char task_folder[] = "/proc/self/task";

enum kind { OTHER, COLLECTOR, COMPILER, OBSERVER };

// HotSpot's names, as far as every version writes them: some cut the middle of a long one out.
static const struct {
  const char* prefix;
  enum kind kind;
} names[] = {
    {"VM Thread", COLLECTOR}, {"GC Thread#", COLLECTOR},    {"G1 Main", COLLECTOR},
    {"G1 Conc", COLLECTOR},   {"G1 Refi", COLLECTOR},       {"G1 Serv", COLLECTOR},
    {"Shen", COLLECTOR},      {"ZDriver", COLLECTOR},       {"ZDirect", COLLECTOR},
    {"ZWorker", COLLECTOR},   {"ZStat", COLLECTOR},         {"ZUncomm", COLLECTOR},
    {"ZUnmapp", COLLECTOR},   {"RuntimeWorker", COLLECTOR}, {"C1 Comp", COMPILER},
    {"C2 Comp", COMPILER},    {"tare-jvm", OBSERVER},       {"MMTk Co", COLLECTOR},
};

struct thread {
  int id;
  int looks;
  bool named;
  enum kind kind;
  uint64_t cpu_ns;
};

static struct tare_jvm_header* header;
static struct thread threads[MOST_THREADS];
static int thread_count;
static char first_name[NAME_BYTES + 1];
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

static _Atomic int compilers[MOST_COMPILERS];
static _Atomic int compiler_count;
static uint64_t compilers_began[MOST_COMPILERS];

uint64_t nanoseconds_of(int clock) {
  struct timespec now;
  if (clock_gettime(clock, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

// The kernel's clock of a thread by its number, as pthread_getcpuclockid makes it.
static int clock_of_thread(int id) { return (int)((~(unsigned)id << 3) | 6); }

static bool read_name(int id, char name[NAME_BYTES + 1]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", id);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t length = read(file, name, NAME_BYTES);
  close(file);
  if (length <= 0) return false;
  name[length - 1] = '\0';  // in place of the end of the line
  return true;
}

static enum kind kind_of(const char* name) {
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strncmp(name, names[i].prefix, strlen(names[i].prefix)) == 0) return names[i].kind;
  return OTHER;
}

static struct thread* known_thread(int id) {
  for (int i = 0; i < thread_count; ++i)
    if (threads[i].id == id) return &threads[i];
  if (thread_count == MOST_THREADS) return NULL;
  threads[thread_count] = (struct thread){.id = id};
  return &threads[thread_count++];
}

static void add_compiler(int id) {
  const int count = atomic_load(&compiler_count);
  if (count == MOST_COMPILERS) return;
  atomic_store(&compilers[count], id);
  atomic_store(&compiler_count, count + 1);
}

static bool may_get_a_name(const struct thread* thread) {
  const int most = thread->named ? LOOKS_UNTIL_NAMED : LOOKS_WITHOUT_NAME;
  return thread->kind == OTHER && thread->looks < most;
}

static void recognise(struct thread* thread) {
  char name[NAME_BYTES + 1];
  if (!read_name(thread->id, name)) return;
  thread->named = strcmp(name, first_name) != 0;
  thread->kind = kind_of(name);
  if (thread->kind == COMPILER) add_compiler(thread->id);
}

static void look_at(struct thread* thread) {
  if (may_get_a_name(thread)) {
    ++thread->looks;
    recognise(thread);
  }
  if (thread->kind == OTHER) return;
  const uint64_t now = nanoseconds_of(clock_of_thread(thread->id));
  if (now > thread->cpu_ns) thread->cpu_ns = now;
}

static void for_each_thread(void (*visit)(struct thread*)) {
  DIR* folder = opendir(task_folder);
  if (folder == NULL) return;
  for (const struct dirent* entry; (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    struct thread* thread = known_thread(atoi(entry->d_name));
    if (thread != NULL) visit(thread);
  }
  closedir(folder);
}

static uint64_t sum_of(enum kind kind) {
  uint64_t sum = 0;
  for (int i = 0; i < thread_count; ++i)
    if (threads[i].kind == kind) sum += threads[i].cpu_ns;
  return sum;
}

void look_at_threads(void) {
  pthread_mutex_lock(&looking);
  for_each_thread(look_at);
  header->collector_cpu_ns = sum_of(COLLECTOR);
  header->compiler_cpu_ns = sum_of(COMPILER);
  header->observer_cpu_ns = sum_of(OBSERVER);
  header->process_cpu_ns = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
  pthread_mutex_unlock(&looking);
}

static void* watch(void* unused) {
  const struct timespec pause = {.tv_nsec = LOOK_MILLISECONDS * 1000000L};
  for (;;) {
    look_at_threads();
    nanosleep(&pause, NULL);
  }
  return unused;
}

bool start_watching_threads(struct tare_jvm_header* target) {
  header = target;
  pthread_getname_np(pthread_self(), first_name, sizeof first_name);
  // Signals are for the JVM's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool started = pthread_create(&thread, NULL, watch, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) {
    pthread_setname_np(thread, "tare-jvm");
    pthread_detach(thread);
  }
  return started;
}

static void recognise_if_new(struct thread* thread) {
  if (may_get_a_name(thread)) recognise(thread);
}

void find_new_compilers(void) {
  static nlink_t links_seen;
  struct stat tasks;
  if (stat(task_folder, &tasks) != 0) return;
  if (tasks.st_nlink == links_seen || tasks.st_nlink > MOST_LINKS) return;
  if (pthread_mutex_trylock(&looking) != 0) return;  // the other look finds them, too
  links_seen = tasks.st_nlink;
  for_each_thread(recognise_if_new);
  pthread_mutex_unlock(&looking);
}

void compilers_begin(void) {
  const int count = atomic_load(&compiler_count);
  for (int i = 0; i < count; ++i)
    compilers_began[i] = nanoseconds_of(clock_of_thread(atomic_load(&compilers[i])));
}

uint64_t compilers_end(void) {
  uint64_t sum = 0;
  const int count = atomic_load(&compiler_count);
  for (int i = 0; i < count; ++i) {
    const uint64_t now = nanoseconds_of(clock_of_thread(atomic_load(&compilers[i])));
    // One that was found or has ended in between is left out.
    if (compilers_began[i] != 0 && now > compilers_began[i]) sum += now - compilers_began[i];
    compilers_began[i] = 0;
  }
  return sum;
}
