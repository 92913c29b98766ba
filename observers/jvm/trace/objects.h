// The objects of the program: what the JVM shows of them becomes rows of the recording.
#ifndef TARE_JVM_OBJECTS_H
#define TARE_JVM_OBJECTS_H

#include <jvmti.h>
#include <stdbool.h>

// While set, what the thread does is the observer's own, and is not recorded.
extern _Thread_local bool is_observing;

// What is recorded of an object at its birth.
struct wanted {
  bool sites;
  bool names;  // which stores need
};

// What the JVM tells of it.
struct allocation {
  jthread thread;
  jobject object;
  jclass type;
  jlong size;
};

// False where threads have no numbers.
bool objects_begin(JNIEnv* java);

// Of the walk that finds the first objects: to be called by it, while it has all of Java stopped.
void objects_have_now_begun(void);

// What a thread makes and stores before is the walk's to find, and not to be recorded.
bool objects_have_begun(void);

void record_allocation(jvmtiEnv* tools, JNIEnv* java, struct allocation allocation,
                       struct wanted wanted);

// Once nothing is recorded any more: returns when every recorded object has its tag.
void objects_await_tags(void);

// The tag of an object of the program. Gives it a birth, if no event told of one, and makes it
// known by its hash. 0 where there is no object.
jlong introduce(jvmtiEnv* tools, jobject object);

// An object of the observer's own.
void hide(jvmtiEnv* tools, jobject object);

// Writes what is known of sites.
void flush_sites(void);

#endif
