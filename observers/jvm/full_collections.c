#include "full_collections.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stddef.h>

static uint64_t period;
static uint64_t* forced_count;
static sem_t due;
static atomic_bool over;
// A round has so many collections and the forced one of the round before, wherever in it that ends;
// the first has none, so it begins as if it had.
static uint64_t in_round = 1;

static void force(jvmtiEnv* tools, JNIEnv* java, void* unused) {
  (void)java;
  (void)unused;
  for (;;) {
    while (sem_wait(&due) != 0 && errno == EINTR) continue;
    if (atomic_load(&over)) return;
    (*tools)->ForceGarbageCollection(tools);
    ++*forced_count;
  }
}

bool start_full_collections(jvmtiEnv* tools, JNIEnv* java, uint64_t every, uint64_t* forced) {
  forced_count = forced;
  if (sem_init(&due, 0, 0) != 0) return false;
  const jclass class = (*java)->FindClass(java, "java/lang/Thread");
  const jmethodID make =
      class == NULL ? NULL : (*java)->GetMethodID(java, class, "<init>", "(Ljava/lang/String;)V");
  const jstring name = (*java)->NewStringUTF(java, "tare-full-collections");
  if (make == NULL || name == NULL) return false;
  const jthread thread = (*java)->NewObject(java, class, make, name);
  if (thread == NULL) return false;
  if ((*tools)->RunAgentThread(tools, thread, force, NULL, JVMTI_THREAD_MAX_PRIORITY) != 0)
    return false;
  period = every;
  return true;
}

void stop_full_collections(void) {
  if (period == 0) return;
  atomic_store(&over, true);
  sem_post(&due);
}

void collection_ended(void) {
  if (period == 0 || ++in_round <= period) return;
  in_round = 0;
  sem_post(&due);
}
