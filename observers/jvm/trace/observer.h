// What the parts of the agent share about the thread that they run in, and about objects.
#ifndef TARE_JVM_OBSERVER_H
#define TARE_JVM_OBSERVER_H

#include <jvmti.h>
#include <stdbool.h>

// While set, what the thread does is the observer's own, and is not recorded.
extern _Thread_local bool is_observing;

// Gives an object of the program that no event told of a birth, if it has none, and makes it known
// by its hash.
void introduce(jvmtiEnv* tools, jobject object);

#endif
