// Call sites of a JVM: a tree of frames, whose leaf says what was made. Every stack is written
// once.
#ifndef TARE_JVM_SITES_H
#define TARE_JVM_SITES_H

#include <jvmti.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  NO_SITE = 0,
  MOST_FRAMES = 8,  // of a stack, the innermost
};

bool sites_open(const char* stem);

// The site of objects of `type`, which has this identity hash, that are made from there. Calls the
// JVM, so the caller holds a lock that no collection waits for. NO_SITE where there are too many.
uint32_t site_of(jvmtiEnv* tools, JNIEnv* java, jclass type, uint32_t type_hash,
                 const jvmtiFrameInfo* frames, jint count);

// The site that was last cached for a key; NO_SITE where another key took its place. Needs no lock.
uint32_t cached_site(uint64_t key);
void cache_site(uint64_t key, uint32_t site);

void sites_flush(void);
bool sites_failed(void);

#endif
