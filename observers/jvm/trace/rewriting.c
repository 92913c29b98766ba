#define _GNU_SOURCE
#include "rewriting.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "objects.h"
#include "recording.h"

static jvmtiEnv* environment;
static jclass rewriter;
static jmethodID rewrite;
static jmethodID warm_up;
static jmethodID offset_of_field;
static jobject unsafe;
static jmethodID object_field_offset;
static atomic_bool ready;
static _Thread_local bool is_rewriting;

static bool failed(JNIEnv* java) {
  if (!(*java)->ExceptionCheck(java)) return false;
  (*java)->ExceptionClear(java);
  return true;
}

static jboolean JNICALL stored(JNIEnv* java, jclass type, jint source, jlong offset, jint target) {
  (void)java;
  (void)type;
  return is_observing || recording_store((uint32_t)source, (uint64_t)offset, (uint32_t)target);
}

static void JNICALL stored_exactly(JNIEnv* java, jclass type, jobject source, jlong offset,
                                   jobject target) {
  (void)java;
  (void)type;
  if (!objects_have_begun()) return;
  is_observing = true;
  const jlong from = introduce(environment, source);
  const jlong to = introduce(environment, target);
  is_observing = false;
  recording_exact_store(from, (uint64_t)offset, to);
}

static void JNICALL lost(JNIEnv* java, jclass type) {
  (void)java;
  (void)type;
  if (!is_observing) recording_lost_store();
}

static void JNICALL copied_unseen(JNIEnv* java, jclass type) {
  (void)java;
  (void)type;
  if (!is_observing) recording_unseen_copy();
}

// 0 where it is not known yet, as it is while this thread already looks for one.
static jlong JNICALL locate(JNIEnv* java, jclass type, jobject source, jint field) {
  (void)type;
  if (is_observing || !atomic_load(&ready)) return 0;
  is_observing = true;
  jlong offset = (*java)->CallStaticLongMethod(java, rewriter, offset_of_field, source, field);
  if (failed(java)) offset = -1;
  is_observing = false;
  return offset;
}

static jlong JNICALL declared_offset(JNIEnv* java, jclass type, jclass owner, jstring name) {
  (void)type;
  const jlong offset = (*java)->CallLongMethod(java, unsafe, object_field_offset, owner, name);
  return failed(java) ? -1 : offset;
}

static bool find_unsafe(JNIEnv* java) {
  const jclass type = (*java)->FindClass(java, "jdk/internal/misc/Unsafe");
  if (type == NULL) return false;
  const jmethodID get =
      (*java)->GetStaticMethodID(java, type, "getUnsafe", "()Ljdk/internal/misc/Unsafe;");
  if (get == NULL) return false;
  unsafe = (*java)->NewGlobalRef(java, (*java)->CallStaticObjectMethod(java, type, get));
  object_field_offset = (*java)->GetMethodID(java, type, "objectFieldOffset",
                                             "(Ljava/lang/Class;Ljava/lang/String;)J");
  return unsafe != NULL && object_field_offset != NULL;
}

static bool find_rewriter(JNIEnv* java) {
  const jclass type = (*java)->FindClass(java, "tare/trace/Rewriter");
  if (type == NULL) return false;
  rewriter = (*java)->NewGlobalRef(java, type);
  rewrite = (*java)->GetStaticMethodID(java, rewriter, "rewrite", "([B)[B");
  offset_of_field = (*java)->GetStaticMethodID(java, rewriter, "offset", "(Ljava/lang/Object;I)J");
  warm_up = (*java)->GetStaticMethodID(java, rewriter, "warmUp", "()V");
  return rewrite != NULL && offset_of_field != NULL && warm_up != NULL;
}

static bool connect_stores(JNIEnv* java) {
  const jclass type = (*java)->FindClass(java, "tare/trace/Stores");
  if (type == NULL) return false;
  const JNINativeMethod methods[] = {
      {"stored", "(IJI)Z", __extension__(void*) stored},
      {"storedExactly", "(Ljava/lang/Object;JLjava/lang/Object;)V",
       __extension__(void*) stored_exactly},
      {"lost", "()V", __extension__(void*) lost},
      {"copiedUnseen", "()V", __extension__(void*) copied_unseen},
      {"locate", "(Ljava/lang/Object;I)J", __extension__(void*) locate},
      {"declaredOffset", "(Ljava/lang/Class;Ljava/lang/String;)J",
       __extension__(void*) declared_offset},
  };
  return (*java)->RegisterNatives(java, type, methods, sizeof methods / sizeof *methods) == JNI_OK;
}

static bool is_ours(const char* name) { return strncmp(name, "tare/", strlen("tare/")) == 0; }

static bool is_to_be_rewritten(jvmtiEnv* tools, jclass type) {
  jboolean modifiable = JNI_FALSE;
  char* signature = NULL;
  if ((*tools)->IsModifiableClass(tools, type, &modifiable) != JVMTI_ERROR_NONE || !modifiable ||
      (*tools)->GetClassSignature(tools, type, &signature, NULL) != JVMTI_ERROR_NONE)
    return false;
  const bool wanted = signature[0] == 'L' && !is_ours(signature + 1);
  (*tools)->Deallocate(tools, (unsigned char*)signature);
  return wanted;
}

// All at once, for each call stops the program and looks at all classes.
static void retransform_loaded(jvmtiEnv* tools) {
  jint count = 0;
  jint wanted = 0;
  jclass* classes = NULL;
  if ((*tools)->GetLoadedClasses(tools, &count, &classes) != JVMTI_ERROR_NONE) return;
  for (jint i = 0; i < count; ++i)
    if (is_to_be_rewritten(tools, classes[i])) classes[wanted++] = classes[i];
  if ((*tools)->RetransformClasses(tools, wanted, classes) != JVMTI_ERROR_NONE)
    for (jint i = 0; i < wanted; ++i)
      if ((*tools)->RetransformClasses(tools, 1, &classes[i]) != JVMTI_ERROR_NONE)
        recording_class(false);
  (*tools)->Deallocate(tools, (unsigned char*)classes);
}

bool rewriting_begin(jvmtiEnv* tools, JNIEnv* java) {
  environment = tools;
  if (!find_unsafe(java) || !find_rewriter(java) || !connect_stores(java)) {
    failed(java);
    return false;
  }
  (*java)->CallStaticVoidMethod(java, rewriter, warm_up);
  if (failed(java)) return false;
  atomic_store(&ready, true);
  retransform_loaded(tools);
  return true;
}

static jbyteArray rewritten(JNIEnv* java, jint length, const unsigned char* bytes) {
  const jbyteArray before = (*java)->NewByteArray(java, length);
  if (before == NULL) return NULL;
  (*java)->SetByteArrayRegion(java, before, 0, length, (const jbyte*)bytes);
  const jbyteArray after = (*java)->CallStaticObjectMethod(java, rewriter, rewrite, before);
  (*java)->DeleteLocalRef(java, before);
  return after;
}

static bool hand_over(jvmtiEnv* tools, JNIEnv* java, jbyteArray from, jint* length,
                      unsigned char** bytes) {
  const jint size = (*java)->GetArrayLength(java, from);
  unsigned char* room = NULL;
  if ((*tools)->Allocate(tools, size, &room) != JVMTI_ERROR_NONE) return false;
  (*java)->GetByteArrayRegion(java, from, 0, size, (jbyte*)room);
  *length = size;
  *bytes = room;
  return true;
}

void JNICALL on_class_file(jvmtiEnv* tools, JNIEnv* java, jclass redefined, jobject loader,
                           const char* name, jobject domain, jint length,
                           const unsigned char* bytes, jint* new_length,
                           unsigned char** new_bytes) {
  (void)redefined;
  (void)loader;
  (void)domain;
  if (!atomic_load(&ready) || (name != NULL && is_ours(name))) return;
  // What the rewriter itself needs cannot wait for it.
  if (is_rewriting || (*java)->ExceptionCheck(java)) {
    recording_class(false);
    return;
  }
  const bool before = is_observing;
  is_observing = true;
  is_rewriting = true;
  const jbyteArray after = rewritten(java, length, bytes);
  bool done = !failed(java);
  if (done && after != NULL) {
    done = hand_over(tools, java, after, new_length, new_bytes);
    (*java)->DeleteLocalRef(java, after);
  }
  is_rewriting = false;
  is_observing = before;
  recording_class(done);
}
