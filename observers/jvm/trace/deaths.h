// Collections of the whole heap, and the deaths that the JVM tells of.
//
// A thread of the JVM's own, one at a time, tells of what a collection found dead, some time after
// it. To turn the event off and on would have the caller tell; but where both want to, and another
// thread asks for a safepoint, all of them wait for ever (JDK 17.0.5 and later): one waits in the
// JVM for the other, which waits for the safepoint.
#ifndef TARE_JVM_DEATHS_H
#define TARE_JVM_DEATHS_H

#include <jvmti.h>
#include <stdbool.h>

// False where there is no class Object.
bool deaths_begin(JNIEnv* java);

void JNICALL on_free(jvmtiEnv* tools, jlong tag);

// Returns when what was dead before is told. By one thread at a time, which observes.
void collect_and_hear(jvmtiEnv* tools, JNIEnv* java);

#endif
