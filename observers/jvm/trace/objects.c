#define _GNU_SOURCE
#include "objects.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mixed.h"
#include "recording.h"
#include "sites.h"
#include "stacks.h"
#include "wait.h"

// The tag of those that are not recorded.
static const jlong OBSERVERS = -1;

_Thread_local bool is_observing;
static jfieldID thread_id;
static atomic_bool have_begun;

// Identity hashes follow one another (-XX:hashCode=3), but the JVM does not count under a lock.
// This one is held while it is asked for one, and for nothing else.
static pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER;

// Of sites, and of objects that no event told of. Held while the JVM is called, so no callback of a
// collection may take it.
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

// Threads between the record of an object and its tag, by parts of their numbers.
enum { PARTS = 64, LINE_BYTES = 64 };
static struct {
  _Alignas(LINE_BYTES) atomic_uint threads;
} tagging[PARTS];

static uint32_t hash_of(jvmtiEnv* tools, jobject object) {
  jint hash = 0;
  pthread_mutex_lock(&drawing);
  (*tools)->GetObjectHashCode(tools, object, &hash);
  pthread_mutex_unlock(&drawing);
  return (uint32_t)hash;
}

static bool is_to_be_checked(void) {
  enum { STACKS_PER_CHECK = 1024 };
  static _Thread_local uint32_t stacks;
  return ++stacks % STACKS_PER_CHECK == 0;
}

static uint32_t asked_site(jvmtiEnv* tools, JNIEnv* java, jclass type, jint* count) {
  jvmtiFrameInfo frames[MOST_FRAMES];
  *count = 0;
  (*tools)->GetStackTrace(tools, NULL, 0, MOST_FRAMES, frames, count);
  pthread_mutex_lock(&naming);
  const uint32_t site = site_of(tools, java, type, hash_of(tools, type), frames, *count);
  pthread_mutex_unlock(&naming);
  return site;
}

// The JVM takes 900 instructions a frame. So it is asked only about stacks that were not seen
// before, and about a few of the others, to be sure.
static uint32_t site_here(jvmtiEnv* tools, JNIEnv* java, jclass type) {
  struct stack stack;
  follow_stack(&stack);
  const uint64_t key = stack.tells_type ? stack.key : mixed(stack.key, hash_of(tools, type));
  const uint32_t known = stack.key == 0 ? NO_SITE : cached_site(key);
  if (known != NO_SITE && !is_to_be_checked()) return known;
  jint count = 0;
  const uint32_t site = asked_site(tools, java, type, &count);
  if (known != NO_SITE) {
    recording_checked_stack(known == site);
    if (known != site) stacks_give_up();
  } else if (stack_is_sure(&stack, count)) {
    cache_site(key, site);
  }
  return site;
}

bool objects_begin(JNIEnv* java) {
  const jclass type = (*java)->FindClass(java, "java/lang/Thread");
  if (type != NULL) thread_id = (*java)->GetFieldID(java, type, "tid", "J");
  (*java)->ExceptionClear(java);
  return thread_id != NULL;
}

void objects_have_now_begun(void) {
  atomic_store_explicit(&have_begun, true, memory_order_release);
}

bool objects_have_begun(void) { return atomic_load_explicit(&have_begun, memory_order_acquire); }

// The thread may be here while the walk is on, which found the object, then: the JVM lets it see
// the tag only once the walk is over. What the thread makes afterwards is after the walk.
static bool is_a_first_object(jvmtiEnv* tools, jobject object) {
  static _Thread_local bool is_past_the_walk;
  if (is_past_the_walk) return false;
  is_past_the_walk = true;
  jlong tag = 0;
  (*tools)->GetTag(tools, object, &tag);
  return tag != 0;
}

// Of the thread of Java, as Thread.threadId() has it: a virtual one runs on several of the
// system's, one after another. A thread that is being attached has no number yet.
static uint32_t thread_of(JNIEnv* java, jthread thread) {
  static _Thread_local uint32_t known = JVM_THREAD;
  if (thread == NULL) return JVM_THREAD;
  const uint32_t number = (uint32_t)(*java)->GetLongField(java, thread, thread_id);
  if (number != known) recording_thread(number);
  known = number;
  return number;
}

void record_allocation(jvmtiEnv* tools, JNIEnv* java, struct allocation allocation,
                       struct wanted wanted) {
  const jobject object = allocation.object;
  if (is_a_first_object(tools, object)) return;
  struct birth birth = {.size = (uint64_t)allocation.size};
  uint32_t hash = 0;
  if (wanted.names) hash = hash_of(tools, object);
  if (wanted.sites) birth.site = site_here(tools, java, allocation.type);
  birth.thread = thread_of(java, allocation.thread);
  atomic_uint* const here = &tagging[birth.thread % PARTS].threads;
  atomic_fetch_add_explicit(here, 1, memory_order_acq_rel);
  const jlong tag = recording_birth(birth);
  if (tag != 0) {
    if (wanted.names) recording_name(hash, tag);
    (*tools)->SetTag(tools, object, tag);
  }
  atomic_fetch_sub_explicit(here, 1, memory_order_release);
}

void objects_await_tags(void) {
  for (size_t part = 0; part < PARTS; ++part)
    while (atomic_load_explicit(&tagging[part].threads, memory_order_acquire) != 0) wait_a_moment();
  pthread_mutex_lock(&naming);  // of those who introduce one
  pthread_mutex_unlock(&naming);
}

jlong introduce(jvmtiEnv* tools, jobject object) {
  if (object == NULL) return 0;
  jlong tag = 0;
  pthread_mutex_lock(&naming);
  const uint32_t hash = hash_of(tools, object);
  (*tools)->GetTag(tools, object, &tag);
  if (tag <= 0) {
    jlong size = 0;
    (*tools)->GetObjectSize(tools, object, &size);
    tag = recording_late_birth((uint64_t)size);
    if (tag != 0) (*tools)->SetTag(tools, object, tag);
  }
  if (tag != 0) recording_name(hash, tag);
  pthread_mutex_unlock(&naming);
  return tag;
}

void hide(jvmtiEnv* tools, jobject object) {
  hash_of(tools, object);  // or the JVM draws it for the tag, without the lock
  (*tools)->SetTag(tools, object, OBSERVERS);
}

void flush_sites(void) {
  pthread_mutex_lock(&naming);
  sites_flush();
  pthread_mutex_unlock(&naming);
}
