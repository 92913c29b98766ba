// Has the stores of pointers in the program's classes tell of themselves: tare.trace.Rewriter puts
// calls of tare.trace.Stores into them, whose native methods are here.
#ifndef TARE_JVM_REWRITING_H
#define TARE_JVM_REWRITING_H

#include <jvmti.h>
#include <stdbool.h>

// From now on every class that is loaded is rewritten; those that are there already are, too. The
// rewriter is on the boot class path. False where this JVM cannot.
bool rewriting_begin(jvmtiEnv* tools, JNIEnv* java);

void JNICALL on_class_file(jvmtiEnv* tools, JNIEnv* java, jclass redefined, jobject loader,
                           const char* name, jobject domain, jint length,
                           const unsigned char* bytes, jint* new_length, unsigned char** new_bytes);

#endif
