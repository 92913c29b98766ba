/* By which a program tells `tare proximity` when its events begin and end: the requests of a
 * server, the queries of a search.
 *
 *   #include <tare/events.h>
 *
 *   tare_event_begin(kind_of_request);
 *   ...
 *   tare_event_end();
 *
 * Events with the same key have to do the same, or about as much. Of events inside one another on a
 * thread only the outermost counts. An event ends on the thread that it began on.
 *
 * There is nothing to link. Outside of `tare proximity` the functions do nothing. Inside, the
 * variable TARE_EVENTS names a folder, and each process writes a file of its own there, which is
 * mapped into memory: nothing is allocated, and what was written stays when the process is killed.
 *
 * The file `events-PID` has numbers of 64 bits, little-endian. A head of six: TARE_EVENTS_MAGIC,
 * the capacity in records, 1, records that found no room, the process that serves the events (0:
 * this one), records begun. Then records of six: 1, start, wall time and processor time of the
 * thread in nanoseconds (0: not known), key, thread. The clock of the start is CLOCK_MONOTONIC.
 * Where the first is 0 there is no record. Programs in other languages can write it themselves.
 *
 * For C99 and C++ by GCC or Clang, on Linux.
 */

#ifndef TARE_EVENTS_H
#define TARE_EVENTS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARE_EVENTS_MAGIC 0x3154564545524154 /* "TAREEVT1" */
#define TARE_EVENTS_CAPACITY 4000000L
#define TARE_EVENTS_WORDS 6L

/* To read a thread's processor time is a call of the kernel, and dear. So it is read for so many
 * events in a row, and then not for some blocks. */
#define TARE_EVENTS_BLOCK 64
#define TARE_EVENTS_BLOCKS_TO_ONE_READ 4

struct tare_event {
  int depth;
  int64_t count, key, start, cpu;
};

/* One for all parts of the program that include this. */
__attribute__((weak)) int64_t* tare_events_words;
__attribute__((weak)) pthread_once_t tare_events_once = PTHREAD_ONCE_INIT;
__attribute__((weak)) __thread struct tare_event tare_events_current;

static inline int tare_events_reads_cpu(const struct tare_event* event) {
  return event->count / TARE_EVENTS_BLOCK % TARE_EVENTS_BLOCKS_TO_ONE_READ == 0;
}

static inline int64_t tare_events_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void tare_events_open(void) {
  const size_t bytes = (size_t)((TARE_EVENTS_CAPACITY + 1) * TARE_EVENTS_WORDS) * sizeof(int64_t);
  const char* const folder = getenv("TARE_EVENTS");
  char path[4096];
  int file;
  void* pages = MAP_FAILED;
  if (folder == NULL) return;
  if (snprintf(path, sizeof path, "%s/events-%ld", folder, (long)getpid()) >= (int)sizeof path)
    return;
  file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (ftruncate(file, (off_t)bytes) == 0)
    pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (pages == MAP_FAILED) return;
  tare_events_words = (int64_t*)pages;
  tare_events_words[1] = TARE_EVENTS_CAPACITY;
  tare_events_words[2] = 1;
  tare_events_words[0] = TARE_EVENTS_MAGIC;
}

/* A forked process has a file of its own. */
static inline void tare_events_forked(void) {
  if (tare_events_words == NULL) return;
  munmap(tare_events_words,
         (size_t)((TARE_EVENTS_CAPACITY + 1) * TARE_EVENTS_WORDS) * sizeof(int64_t));
  tare_events_words = NULL;
  tare_events_open();
}

static inline void tare_events_begin_process(void) {
  tare_events_open();
  if (tare_events_words != NULL) pthread_atfork(NULL, NULL, tare_events_forked);
}

static inline void tare_event_begin(int64_t key) {
  struct tare_event* const event = &tare_events_current;
  pthread_once(&tare_events_once, tare_events_begin_process);
  if (tare_events_words == NULL || event->depth++ > 0) return;
  event->key = key;
  if (tare_events_reads_cpu(event)) event->cpu = tare_events_clock(CLOCK_THREAD_CPUTIME_ID);
  event->start = tare_events_clock(CLOCK_MONOTONIC);
}

static inline void tare_event_end(void) {
  struct tare_event* const event = &tare_events_current;
  int64_t end, cpu, number, *record;
  if (tare_events_words == NULL || event->depth == 0 || --event->depth > 0) return;
  end = tare_events_clock(CLOCK_MONOTONIC);
  cpu = 0;
  if (tare_events_reads_cpu(event)) cpu = tare_events_clock(CLOCK_THREAD_CPUTIME_ID) - event->cpu;
  event->count++;
  number = __atomic_fetch_add(&tare_events_words[5], 1, __ATOMIC_RELAXED);
  if (number >= TARE_EVENTS_CAPACITY) {
    __atomic_fetch_add(&tare_events_words[3], 1, __ATOMIC_RELAXED);
    return;
  }
  record = tare_events_words + (number + 1) * TARE_EVENTS_WORDS;
  record[1] = event->start;
  record[2] = end - event->start;
  record[3] = cpu;
  record[4] = event->key;
  record[5] = (int64_t)syscall(SYS_gettid);
  __atomic_store_n(&record[0], 1, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#endif
