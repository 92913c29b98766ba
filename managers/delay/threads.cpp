// The end of a thread over allocators that take its heap from it as its function returns, such as
// Hoard: what the layer held has to be there by then. A destructor of the thread's own data, which
// serves over all others, is too late: the allocator gives the thread a heap anew for it, and keeps
// that for ever.

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <cerrno>

#include "next.hpp"
#include "quarantine.hpp"
#include "tare/platform/exported.hpp"

namespace tare {
namespace {

using NextCreate =
    Next<"pthread_create", int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>;
using NextExit = Next<"pthread_exit", void(void*)>;

struct Function {
  void* (*run)(void*);
  void* argument;
};

void* RunAndClose(void* given) {
  const Function function = *static_cast<Function*>(given);
  process.inner.free(given);
  void* const result = function.run(function.argument);
  CloseThisThread();
  return result;
}

bool AllocatorEndsThreads() {
  if (process.inner.free == nullptr || !NextCreate::Exists()) return false;
  const void* const allocator = ObjectOf(process.inner.free).dli_fbase;
  return ObjectOf(NextCreate::function).dli_fbase == allocator &&
         ObjectOf(sched_yield).dli_fbase != allocator;
}

}  // namespace
}  // namespace tare

EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) noexcept {
  using namespace tare;
  if (!AllocatorEndsThreads()) return NextCreate::Call(thread, attributes, run, argument);
  auto* const function = static_cast<Function*>(process.inner.malloc(sizeof(Function)));
  if (function == nullptr) return EAGAIN;
  *function = {run, argument};
  const int error = NextCreate::Call(thread, attributes, RunAndClose, function);
  if (error != 0) process.inner.free(function);
  return error;
}

EXPORT void pthread_exit(void* result) {
  if (tare::AllocatorEndsThreads()) tare::CloseThisThread();
  tare::NextExit::Call(result);
  __builtin_unreachable();
}
