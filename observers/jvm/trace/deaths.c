#define _GNU_SOURCE
#include "deaths.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recording.h"
#include "stacks.h"
#include "wait.h"

// The tags of probes, which no other object has, go down from here.
static const jlong LAST_PROBE = -1000;

static jclass object_class;
static int unheard;  // collections of which it was not told in time

static atomic_int teller;             // the number of the thread that told of a death
static atomic_uint_fast64_t entries;  // into on_free and out of it: odd, while a thread is in it
static atomic_int_fast64_t heard;     // the last probe told of

bool deaths_begin(JNIEnv* java) {
  const jclass found = (*java)->FindClass(java, "java/lang/Object");
  if (found != NULL) object_class = (*java)->NewGlobalRef(java, found);
  (*java)->ExceptionClear(java);
  return object_class != NULL;
}

void JNICALL on_free(jvmtiEnv* tools, jlong tag) {
  static _Thread_local pid_t self;
  (void)tools;
  if (self == 0) self = gettid();
  atomic_fetch_add_explicit(&entries, 1, memory_order_acq_rel);
  atomic_store_explicit(&teller, self, memory_order_relaxed);
  if (tag > 0) recording_death(tag);
  if (tag < LAST_PROBE) atomic_store_explicit(&heard, tag, memory_order_release);
  atomic_fetch_add_explicit(&entries, 1, memory_order_acq_rel);
}

static double seconds_now(void) {
  const double nanosecond = 1e-9;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * nanosecond;
}

static bool is_asleep(pid_t thread) {
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return true;  // it is gone
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  text[length > 0 ? length : 0] = '\0';
  const char* const name_end = strrchr(text, ')');
  return name_end == NULL || name_end[2] == 'S';
}

// All deaths of a collection are told in one loop, which sleeps in on_free only: a teller that
// sleeps elsewhere is done with it.
static bool all_is_told(jlong probe) {
  if (atomic_load_explicit(&heard, memory_order_acquire) != probe) return false;
  const uint64_t before = atomic_load_explicit(&entries, memory_order_acquire);
  if (before % 2 != 0) return false;
  if (!is_asleep(atomic_load_explicit(&teller, memory_order_relaxed))) return false;
  return atomic_load_explicit(&entries, memory_order_acquire) == before;
}

static void await_deaths(jlong probe) {
  const double most_seconds = 10;
  const double begun = seconds_now();
  while (!all_is_told(probe)) {
    wait_a_moment();
    if (seconds_now() - begun < most_seconds) continue;
    ++unheard;
    return;
  }
}

// NULL where there is no room for it.
static jweak make_probe(jvmtiEnv* tools, JNIEnv* java, jlong tag) {
  const jobject object = (*java)->AllocObject(java, object_class);
  (*java)->ExceptionClear(java);
  if (object == NULL) return NULL;
  (*tools)->SetTag(tools, object, tag);
  const jweak probe = (*java)->NewWeakGlobalRef(java, object);
  (*java)->ExceptionClear(java);
  (*java)->DeleteLocalRef(java, object);
  return probe;
}

// A JVM that tells of deaths in some other way is not waited for again and again: they come when
// they come.
void collect_and_hear(jvmtiEnv* tools, JNIEnv* java) {
  enum { MOST_UNHEARD = 3 };
  static jlong last_probe = LAST_PROBE;
  const jthrowable thrown = (*java)->ExceptionOccurred(java);
  if (thrown != NULL) (*java)->ExceptionClear(java);
  const jweak probe = unheard == MOST_UNHEARD ? NULL : make_probe(tools, java, --last_probe);
  (*tools)->ForceGarbageCollection(tools);
  stacks_forget_interpreted();
  if (probe != NULL) {
    // The JVM leaves a collection out while a thread has the elements of an array in its hands.
    if ((*java)->IsSameObject(java, probe, NULL)) await_deaths(last_probe);
    (*java)->DeleteWeakGlobalRef(java, probe);
  }
  if (thrown != NULL) {
    (*java)->Throw(java, thrown);
    (*java)->DeleteLocalRef(java, thrown);
  }
}
