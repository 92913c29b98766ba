// A full collection each time that so many collections were done: exact where young collections
// come after a fixed number of bytes.
#ifndef TARE_JVM_FULL_COLLECTIONS_H
#define TARE_JVM_FULL_COLLECTIONS_H

#include <jvmti.h>
#include <stdbool.h>
#include <stdint.h>

// Starts the thread that asks the JVM for full collections, which only a thread of Java may do.
bool start_full_collections(jvmtiEnv* tools, JNIEnv* java, uint64_t every, uint64_t* forced);

// Ends that thread. A JVM that exits waits up to 300 ms for threads in native code, as that is.
void stop_full_collections(void);

// To be told of each collection that ended. Safe while the JVM is stopped.
void collection_ended(void);

#endif
