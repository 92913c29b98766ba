// libtare-jvm-trace: loaded by a JVM, it records the program's heap for a heap trace:
//
//   -agentpath:…/libtare-jvm-trace.so=period=BYTES,sites=0|1,rewriter=JAR,folder=FOLDER
//
// A collection of the whole heap is forced each time so many bytes were allocated. With a rewriter
// stores of pointers are recorded, too.

#define _GNU_SOURCE
#include <jvmti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deaths.h"
#include "objects.h"
#include "recording.h"
#include "rewriting.h"
#include "stacks.h"

// The tag of an object that is not recorded, found at the end.
static const jlong MISSED = -2;

static uint64_t period;
static bool wants_sites;
static char rewriter[2048];
static char folder[3000];

static pthread_mutex_t collecting = PTHREAD_MUTEX_INITIALIZER;

static bool wants_pointers(void) { return rewriter[0] != '\0'; }

static void collect_all(jvmtiEnv* tools, JNIEnv* java) {
  pthread_mutex_lock(&collecting);
  recording_mark_begin();
  collect_and_hear(tools, java);
  recording_mark_end();
  pthread_mutex_unlock(&collecting);
}

static void JNICALL on_allocation(jvmtiEnv* tools, JNIEnv* java, jthread thread, jobject object,
                                  jclass type, jlong size) {
  if (is_observing) {
    hide(tools, object);
    return;
  }
  if (!objects_have_begun()) return;
  is_observing = true;
  record_allocation(tools, java, (struct allocation){thread, object, type, size},
                    (struct wanted){.sites = wants_sites, .names = wants_pointers()});
  if (recording_is_due(period)) collect_all(tools, java);
  is_observing = false;
}

static jint JNICALL on_first_reference(jvmtiHeapReferenceKind kind,
                                       const jvmtiHeapReferenceInfo* info, jlong type,
                                       jlong referrer_type, jlong size, jlong* tag, jlong* referrer,
                                       jint length, void* unused) {
  (void)kind;
  (void)info;
  (void)type;
  (void)referrer_type;
  (void)referrer;
  (void)length;
  (void)unused;
  objects_have_now_begun();
  if (*tag == 0) *tag = recording_first_birth((uint64_t)size);
  return JVMTI_VISIT_OBJECTS;
}

static void enable(jvmtiEnv* tools, jvmtiEvent event) {
  (*tools)->SetEventNotificationMode(tools, JVMTI_ENABLE, event, NULL);
}

static void JNICALL on_init(jvmtiEnv* tools, JNIEnv* java, jthread thread) {
  (void)thread;
  is_observing = true;
  if (!objects_begin(java)) (*java)->FatalError(java, "tare: this JVM does not number its threads");
  if (!deaths_begin(java)) (*java)->FatalError(java, "tare: this JVM does not show its classes");
  enable(tools, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC);
  enable(tools, JVMTI_EVENT_OBJECT_FREE);
  if (wants_sites) {
    enable(tools, JVMTI_EVENT_COMPILED_METHOD_LOAD);
    enable(tools, JVMTI_EVENT_COMPILED_METHOD_UNLOAD);
    enable(tools, JVMTI_EVENT_DYNAMIC_CODE_GENERATED);
    stacks_begin(tools);
  }
  if (wants_pointers() && !rewriting_begin(tools, java))
    (*java)->FatalError(java, "tare: this JVM does not let its classes be rewritten");
  // References lead to no dead object, and not to what the JVM fills gaps of its heap with.
  (*tools)->ForceGarbageCollection(tools);
  const jvmtiHeapCallbacks callbacks = {.heap_reference_callback = on_first_reference};
  (*tools)->FollowReferences(tools, 0, NULL, NULL, &callbacks, NULL);
  is_observing = false;
}

static jint JNICALL on_reference(jvmtiHeapReferenceKind kind, const jvmtiHeapReferenceInfo* info,
                                 jlong type, jlong referrer_type, jlong size, jlong* tag,
                                 jlong* referrer, jint length, void* found_by_caller) {
  (void)info;
  (void)type;
  (void)referrer_type;
  (void)length;
  struct found* const found = found_by_caller;
  if (*tag == 0) {
    ++found->missed;
    found->missed_bytes += (uint64_t)size;
    *tag = MISSED;
  }
  const bool is_pointer =
      kind == JVMTI_HEAP_REFERENCE_FIELD || kind == JVMTI_HEAP_REFERENCE_ARRAY_ELEMENT;
  if (is_pointer && wants_pointers() && *tag > 0 && referrer != NULL && *referrer > 0)
    recording_reference(*referrer, *tag);
  return JVMTI_VISIT_OBJECTS;
}

static jint JNICALL on_last_object(jlong type, jlong size, jlong* tag, jint length,
                                   void* found_by_caller) {
  (void)type;
  (void)size;
  (void)length;
  struct found* const found = found_by_caller;
  found->recorded += *tag > 0;
  return JVMTI_VISIT_OBJECTS;
}

// References lead to all that was missed, but not to what only the JVM itself holds; and what lies
// in the heap may be dead, if it has no tag.
static struct found look_at_heap(jvmtiEnv* tools, JNIEnv* java) {
  struct found found = {0};
  const jvmtiHeapCallbacks references = {.heap_reference_callback = on_reference};
  (*tools)->FollowReferences(tools, 0, NULL, NULL, &references, &found);
  // Threads may go on, and let a collection take what was there at the end: then again.
  enum { MOST_TRIES = 4 };
  const jvmtiHeapCallbacks objects = {.heap_iteration_callback = on_last_object};
  uint64_t late = 0;
  collect_and_hear(tools, java);
  for (int tries = 0; tries == 0 || (tries < MOST_TRIES && late != recording_late_deaths());
       ++tries) {
    late = recording_late_deaths();
    found.recorded = late;
    (*tools)->IterateThroughHeap(tools, JVMTI_HEAP_FILTER_UNTAGGED, NULL, &objects, &found);
    collect_and_hear(tools, java);
  }
  return found;
}

static void JNICALL on_death(jvmtiEnv* tools, JNIEnv* java) {
  is_observing = true;
  collect_all(tools, java);
  recording_stop();
  objects_await_tags();
  pthread_mutex_lock(&collecting);
  const struct found found = look_at_heap(tools, java);
  pthread_mutex_unlock(&collecting);
  flush_sites();
  recording_end(found);
}

static bool ask_for_events(JavaVM* vm) {
  jvmtiEnv* tools = NULL;
  if ((*vm)->GetEnv(vm, (void**)&tools, JVMTI_VERSION_11) != JNI_OK) return false;
  const jvmtiCapabilities wanted = {
      .can_tag_objects = 1,
      .can_generate_object_free_events = 1,
      .can_generate_sampled_object_alloc_events = 1,
      .can_get_source_file_name = wants_sites,
      .can_get_line_numbers = wants_sites,
      .can_generate_compiled_method_load_events = wants_sites,
      .can_generate_all_class_hook_events = wants_pointers(),
      .can_retransform_classes = wants_pointers(),
      .can_retransform_any_class = wants_pointers(),
  };
  const jvmtiEventCallbacks callbacks = {
      .VMInit = on_init,
      .VMDeath = on_death,
      .SampledObjectAlloc = on_allocation,
      .ObjectFree = on_free,
      .CompiledMethodLoad = on_compiled_method,
      .CompiledMethodUnload = on_unloaded_method,
      .DynamicCodeGenerated = on_stub,
      .ClassFileLoadHook = on_class_file,
  };
  if ((*tools)->AddCapabilities(tools, &wanted) != JVMTI_ERROR_NONE ||
      (*tools)->SetEventCallbacks(tools, &callbacks, sizeof callbacks) != JVMTI_ERROR_NONE ||
      (*tools)->SetHeapSamplingInterval(tools, 0) != JVMTI_ERROR_NONE)
    return false;
  if (wants_pointers()) {
    if ((*tools)->AddToBootstrapClassLoaderSearch(tools, rewriter) != JVMTI_ERROR_NONE)
      return false;
    enable(tools, JVMTI_EVENT_CLASS_FILE_LOAD_HOOK);
  }
  enable(tools, JVMTI_EVENT_VM_INIT);
  enable(tools, JVMTI_EVENT_VM_DEATH);
  return true;
}

// The folder comes last, and may hold commas.
static bool read_options(const char* text) {
  unsigned long long bytes = 0;
  int sites = 0;
  if (text == NULL || sscanf(text, "period=%llu,sites=%d,", &bytes, &sites) != 2) return false;
  const char* const jar = strstr(text, ",rewriter=");
  const char* const place = strstr(text, ",folder=");
  if (jar == NULL || place == NULL || bytes == 0) return false;
  period = bytes;
  wants_sites = sites != 0;
  const char* const path = jar + strlen(",rewriter=");
  const int length = snprintf(rewriter, sizeof rewriter, "%.*s", (int)(place - path), path);
  snprintf(folder, sizeof folder, "%s", place + strlen(",folder="));
  return length < (int)sizeof rewriter;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM* vm, char* options, void* reserved) {
  (void)reserved;
  if (!read_options(options)) {
    fputs("tare: the options of the agent are wrong\n", stderr);
    return JNI_ERR;
  }
  if (!recording_open(folder, wants_pointers())) {
    fprintf(stderr, "tare: the agent cannot write to %s\n", folder);
    return JNI_ERR;
  }
  if (!ask_for_events(vm)) {
    fputs("tare: this JVM does not tell an agent of its allocations\n", stderr);
    return JNI_ERR;
  }
  return JNI_OK;
}
