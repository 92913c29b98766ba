// The calling thread's stack, without asking the JVM for it: the places in compiled code that frame
// pointers lead to (-XX:+PreserveFramePointer). A stack that is sure and has a key that a sure one
// had before is the same stack, as far as sites look at it.
#ifndef TARE_JVM_STACKS_H
#define TARE_JVM_STACKS_H

#include <jvmti.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sites.h"

// The innermost place is a stub of the JVM that allocates.
enum { MOST_PLACES = MOST_FRAMES + 1 };

struct stack {
  uint64_t key;  // 0 where it cannot be followed
  size_t count;
  size_t end;  // where the JVM called the last place, from the beginning of the stack; or 0
  const void* outside;  // where it has an end, the frame of the JVM there
  bool tells_type;      // all that is made there is of one type
  uintptr_t places[MOST_PLACES];
};

// Asks the JVM to tell of the code that it has. Its code is known by the three events.
void stacks_begin(jvmtiEnv* tools);
void JNICALL on_compiled_method(jvmtiEnv* tools, jmethodID method, jint size, const void* code,
                                jint count, const jvmtiAddrLocationMap* map, const void* details);
void JNICALL on_unloaded_method(jvmtiEnv* tools, jmethodID method, const void* code);
void JNICALL on_stub(jvmtiEnv* tools, const char* name, const void* code, jint size);

void follow_stack(struct stack* stack);

// Whether the places say all about the stack of which the JVM gave `frame_count` frames.
bool stack_is_sure(const struct stack* stack, jint frame_count);

// Interpreted methods may be gone. Of compiled ones the events tell.
void stacks_forget_interpreted(void);

// No stack can be followed from now on.
void stacks_give_up(void);

#endif
