// libtare-recorder.so: preloaded in front of an allocator, it writes down every birth and death of
// an object; see format.hpp for what it leaves.
//
// It stands for the whole malloc family, and for C++'s operators, and passes each call on to the
// next object that defines the function. malloc_usable_size is left to the allocator.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "begin.hpp"
#include "calls.hpp"
#include "next.hpp"
#include "operators_delete.hpp"
#include "operators_new.hpp"
#include "process.hpp"
#include "stacks.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/loaded_objects.hpp"

using namespace tare::recorder;
using std::size_t;
using tare::Next;

namespace {

#ifndef TARE_ATTACHED
__attribute__((constructor)) void Constructor() { BeginOnce(); }
#endif
__attribute__((destructor)) void Destructor() {
  RecordRest();
  NoteEnd();
}

}  // namespace

EXPORT void* malloc(size_t n) {
  if (Passes(n) || IsOff()) return setting.inner.malloc(n);
  return RecordedMalloc(n);
}
EXPORT void* calloc(size_t n, size_t m) {
  return Birth(kCalloc, n * m, 0, CallerHere(), [n, m] { return setting.inner.calloc(n, m); });
}
EXPORT void* realloc(void* p, size_t n) { return Resize(p, n, CallerHere()); }
EXPORT void* reallocarray(void* p, size_t n, size_t m) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, m, &bytes)) return Resize(p, bytes, CallerHere());
  errno = ENOMEM;
  return nullptr;
}
EXPORT void* memalign(size_t a, size_t n) {
  return Birth(kAligned, n, a, CallerHere(),
               [a, n] { return Next<"memalign", void*(size_t, size_t)>::Call(a, n); });
}
EXPORT void* aligned_alloc(size_t a, size_t n) {
  return Birth(kAligned, n, a, CallerHere(),
               [a, n] { return Next<"aligned_alloc", void*(size_t, size_t)>::Call(a, n); });
}
EXPORT int posix_memalign(void** p, size_t a, size_t n) {
  int error = 0;
  Birth(kAligned, n, a, CallerHere(), [&]() -> void* {
    error = Next<"posix_memalign", int(void**, size_t, size_t)>::Call(p, a, n);
    return error == 0 ? *p : nullptr;
  });
  return error;
}
EXPORT void* valloc(size_t n) {
  return Birth(kAligned, n, kPage, CallerHere(),
               [n] { return Next<"valloc", void*(size_t)>::Call(n); });
}
EXPORT void* pvalloc(size_t n) {
  return Birth(kAligned, n, kPage, CallerHere(),
               [n] { return Next<"pvalloc", void*(size_t)>::Call(n); });
}

EXPORT void free(void* p) { Free(p); }
EXPORT void cfree(void* p) { Free(p); }
EXPORT void free_sized(void* p, size_t) { Free(p); }
EXPORT void free_aligned_sized(void* p, size_t, size_t) { Free(p); }

#define OPERATOR_DELETE(symbol, ...) \
  EXPORT void symbol(void* p __VA_OPT__(, ) __VA_ARGS__) { Free(p); }
TARE_EACH_OPERATOR_DELETE(OPERATOR_DELETE)

#define OPERATOR_NEW(symbol)                                                              \
  EXPORT void* symbol(size_t n) { return PlainNew<#symbol, true>(n); }                    \
  EXPORT void* symbol##RKSt9nothrow_t(size_t n, const void* t) {                          \
    return New<#symbol "RKSt9nothrow_t", false>(CallerHere(), n, size_t{0}, t);           \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_t(size_t n, size_t a) {                              \
    return New<#symbol "St11align_val_t", true>(CallerHere(), n, a, a);                   \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_tRKSt9nothrow_t(size_t n, size_t a, const void* t) { \
    return New<#symbol "St11align_val_tRKSt9nothrow_t", false>(CallerHere(), n, a, a, t); \
  }
OPERATOR_NEW(_Znwm)
OPERATOR_NEW(_Znam)

EXPORT int dlclose(void* object) {
  BeginOnce();
  const std::uint64_t before = tare::platform::CountUnloaded();
  const int result = Next<"dlclose", int(void*)>::Call(object);
  if (process != nullptr && process->stacks != nullptr && tare::platform::CountUnloaded() != before)
    ForgetCode(*process->stacks);
  return result;
}

// A process that ends so runs no destructors.
EXPORT [[noreturn]] void _exit(int status) {
  if (IsOwnProcess()) RecordRest();
  NoteEnd();
  for (;;) syscall(SYS_exit_group, status);
}
#ifndef TARE_ATTACHED
EXPORT [[noreturn]] void _Exit(int status) { _exit(status); }
#endif
