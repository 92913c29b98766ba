// New threads.

#include <dlfcn.h>
#include <pthread.h>

#include "next.hpp"
#include "tare/platform/exported.hpp"
#include "world.hpp"

// The library takes its signal when the first thread is made. We take it back.
EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) noexcept {
  using NextCreate =
      tare::Next<"pthread_create", int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>;
  const int error = NextCreate::Call(thread, attributes, run, argument);
  tare::TakeStopSignal();
  return error;
}

EXPORT int thrd_create(unsigned long* thread, int (*run)(void*), void* argument) {
  using NextCreate = tare::Next<"thrd_create", int(unsigned long*, int (*)(void*), void*)>;
  const int error = NextCreate::Call(thread, run, argument);
  tare::TakeStopSignal();
  return error;
}
