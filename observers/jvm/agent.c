// libtare-jvm: loaded by a JVM (-agentpath:…/libtare-jvm.so=FOLDER), it writes FOLDER/PID.stops,
// which format.h describes.
//
// TARE_JVM_FULL_EVERY, a number, asks for a full collection after so many collections.

#define _GNU_SOURCE
#include <fcntl.h>
#include <jvmti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "format.h"
#include "full_collections.h"
#include "processor_time.h"

static struct tare_jvm_header* header;
static struct tare_jvm_stop* stops;
static uint64_t started_ns;
static uint64_t started_cpu_ns;
static int stops_file = -1;
static uint64_t room_for;  // stops

// Whether the disk has room for it: a page without would be a SIGBUS when it is touched.
static bool has_room_for(uint64_t stop) {
  enum { STOPS_AT_ONCE = 4096 };
  if (stop < room_for) return true;
  const uint64_t more = TARE_JVM_HEADER_BYTES + (room_for + STOPS_AT_ONCE) * sizeof *stops;
  if (posix_fallocate(stops_file, 0, (off_t)more) != 0) return false;
  room_for += STOPS_AT_ONCE;
  return true;
}

static void JNICALL on_start(jvmtiEnv* tools) {
  (void)tools;
  find_new_compilers();
  started_ns = nanoseconds_of(CLOCK_MONOTONIC);
  compilers_begin();
  started_cpu_ns = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

static void JNICALL on_finish(jvmtiEnv* tools) {
  (void)tools;
  const uint64_t cpu_ns = nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID) - started_cpu_ns;
  const uint64_t compilers_ns = compilers_end();
  const uint64_t index = atomic_load(&header->stops);
  if (index < TARE_JVM_MOST_STOPS && has_room_for(index)) {
    stops[index] = (struct tare_jvm_stop){
        .start_ns = started_ns,
        .finish_ns = nanoseconds_of(CLOCK_MONOTONIC),
        .cpu_ns = cpu_ns > compilers_ns ? cpu_ns - compilers_ns : 0,
    };
    atomic_store(&header->stops, index + 1);
  } else {
    atomic_fetch_add(&header->dropped, 1);
  }
  collection_ended();
}

static void JNICALL on_init(jvmtiEnv* tools, JNIEnv* java, jthread thread) {
  (void)thread;
  const char* every = getenv("TARE_JVM_FULL_EVERY");
  if (every == NULL) return;
  const uint64_t period = strtoull(every, NULL, 10);
  if (period > 0 && !start_full_collections(tools, java, period, &header->forced_collections))
    (*java)->FatalError(java, "tare: full collections cannot be asked for");
}

static void JNICALL on_death(jvmtiEnv* tools, JNIEnv* java) {
  (void)tools;
  (void)java;
  stop_full_collections();
  look_at_threads();
  header->ended_ns = nanoseconds_of(CLOCK_MONOTONIC);
}

static bool map_file(const char* folder) {
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%d.stops", folder, (int)getpid());
  if (length < 0 || (size_t)length >= sizeof path) return false;
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const size_t size =
      TARE_JVM_HEADER_BYTES + (size_t)TARE_JVM_MOST_STOPS * sizeof(struct tare_jvm_stop);
  void* map = MAP_FAILED;
  stops_file = file;
  if (has_room_for(0) && ftruncate(file, (off_t)size) == 0)
    map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (map == MAP_FAILED) return false;
  header = map;
  stops = (struct tare_jvm_stop*)((char*)map + TARE_JVM_HEADER_BYTES);
  header->pid = (uint64_t)getpid();
  header->loaded_ns = nanoseconds_of(CLOCK_MONOTONIC);
  header->magic = TARE_JVM_MAGIC;
  return true;
}

static bool ask_for_events(JavaVM* vm) {
  jvmtiEnv* tools = NULL;
  if ((*vm)->GetEnv(vm, (void**)&tools, JVMTI_VERSION_11) != JNI_OK) return false;
  const jvmtiCapabilities wanted = {.can_generate_garbage_collection_events = 1};
  const jvmtiEventCallbacks callbacks = {
      .VMInit = on_init,
      .VMDeath = on_death,
      .GarbageCollectionStart = on_start,
      .GarbageCollectionFinish = on_finish,
  };
  const jvmtiEvent events[] = {
      JVMTI_EVENT_VM_INIT,
      JVMTI_EVENT_VM_DEATH,
      JVMTI_EVENT_GARBAGE_COLLECTION_START,
      JVMTI_EVENT_GARBAGE_COLLECTION_FINISH,
  };
  bool asked = (*tools)->AddCapabilities(tools, &wanted) == JVMTI_ERROR_NONE &&
               (*tools)->SetEventCallbacks(tools, &callbacks, sizeof callbacks) == JVMTI_ERROR_NONE;
  for (size_t i = 0; asked && i < sizeof events / sizeof *events; ++i)
    asked = (*tools)->SetEventNotificationMode(tools, JVMTI_ENABLE, events[i], NULL) ==
            JVMTI_ERROR_NONE;
  return asked;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM* vm, char* folder, void* reserved) {
  (void)reserved;
  if (folder == NULL || !map_file(folder)) {
    fprintf(stderr, "tare: the agent cannot write to %s\n", folder == NULL ? "nowhere" : folder);
    return JNI_ERR;
  }
  if (!ask_for_events(vm) || !start_watching_threads(header)) {
    fputs("tare: this JVM does not tell an agent of its collections\n", stderr);
    return JNI_ERR;
  }
  return JNI_OK;
}
