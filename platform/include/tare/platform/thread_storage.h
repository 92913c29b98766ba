/* What lies around the thread pointer: glibc's own record of the thread, and its thread-local
   storage. A processor's part says on which side the record is. */

#pragma once

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(thread_storage.h)

struct tare_thread_storage {
  size_t below, above; /* bytes, of any thread */
  size_t record_below; /* 0: the record is above */
};

static inline int tare_widen_thread_storage(struct dl_phdr_info* object, size_t size,
                                            void* argument) {
  enum { NEAR = 1 << 20 }; /* that of a library loaded later lies in the heap */
  struct tare_thread_storage* const storage = (struct tare_thread_storage*)argument;
  const uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
  const uintptr_t start = (uintptr_t)object->dlpi_tls_data;
  (void)size;
  if (start == 0) return 0;
  if (start < thread && thread - start < NEAR && thread - start > storage->below)
    storage->below = thread - start;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const uintptr_t above = start + object->dlpi_phdr[i].p_memsz - thread;
    if (object->dlpi_phdr[i].p_type == PT_TLS && start >= thread && above < NEAR &&
        above > storage->above)
      storage->above = above;
  }
  return 0;
}

/* Asks the dynamic linker, which takes its locks. */
static inline struct tare_thread_storage tare_find_thread_storage(void) {
  const unsigned of_glibc_2_36 = 0x900;
  const unsigned* const told = (const unsigned*)dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");
  const size_t record = told != NULL ? *told : of_glibc_2_36;
  struct tare_thread_storage storage = {0, 0, 0};
  if (TARE_THREAD_RECORD_IS_ABOVE)
    storage.above = record;
  else
    storage.below = storage.record_below = record;
  dl_iterate_phdr(tare_widen_thread_storage, &storage);
  return storage;
}
