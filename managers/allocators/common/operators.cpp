// C++'s operators new and delete over the malloc family, for an allocator whose sources lack some
// of them. All are weak: what the allocator's own sources define goes before.
//
// The C++ runtime is reached by weak references only; weak_runtime.h says why.

#include <malloc.h>

#include <cstdlib>
#include <new>

#include "weak_runtime.h"

namespace std {
void __throw_bad_alloc() __attribute__((weak));
new_handler get_new_handler() noexcept __attribute__((weak));
}  // namespace std

namespace {

void* Try(std::size_t size, std::size_t alignment) {
  return alignment == 0 ? malloc(size) : memalign(alignment, size);
}

__attribute__((noinline, cold)) void* Retry(std::size_t size, std::size_t alignment) {
  for (;;) {
    std::new_handler handler = std::get_new_handler ? std::get_new_handler() : nullptr;
    if (handler == nullptr) {
      if (std::__throw_bad_alloc) {
        std::__throw_bad_alloc();
      }
      abort();
    }
    handler();
    if (void* object = Try(size, alignment)) {
      return object;
    }
  }
}

__attribute__((noinline, cold)) void* RetryNothrow(std::size_t size,
                                                   std::size_t alignment) noexcept {
  if (std::get_new_handler == nullptr || std::get_new_handler() == nullptr) {
    return nullptr;
  }
  try {
    return Retry(size, alignment);
  } catch (...) {
    return nullptr;
  }
}

inline void* New(std::size_t size, std::size_t alignment = 0) {
  void* object = Try(size, alignment);
  return __builtin_expect(object != nullptr, 1) ? object : Retry(size, alignment);
}

inline void* NewNothrow(std::size_t size, std::size_t alignment = 0) noexcept {
  void* object = Try(size, alignment);
  return __builtin_expect(object != nullptr, 1) ? object : RetryNothrow(size, alignment);
}

inline std::size_t Bytes(std::align_val_t alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

#define WEAK __attribute__((weak))

WEAK void* operator new(std::size_t n) { return New(n); }
WEAK void* operator new[](std::size_t n) { return New(n); }
WEAK void* operator new(std::size_t n, std::align_val_t a) { return New(n, Bytes(a)); }
WEAK void* operator new[](std::size_t n, std::align_val_t a) { return New(n, Bytes(a)); }

WEAK void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return NewNothrow(n); }
WEAK void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return NewNothrow(n); }
WEAK void* operator new(std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return NewNothrow(n, Bytes(a));
}
WEAK void* operator new[](std::size_t n, std::align_val_t a, const std::nothrow_t&) noexcept {
  return NewNothrow(n, Bytes(a));
}

WEAK void operator delete(void* p) noexcept { free(p); }
WEAK void operator delete[](void* p) noexcept { free(p); }
WEAK void operator delete(void* p, std::size_t) noexcept { free(p); }
WEAK void operator delete[](void* p, std::size_t) noexcept { free(p); }
WEAK void operator delete(void* p, std::align_val_t) noexcept { free(p); }
WEAK void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
WEAK void operator delete(void* p, std::size_t, std::align_val_t) noexcept { free(p); }
WEAK void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { free(p); }
WEAK void operator delete(void* p, const std::nothrow_t&) noexcept { free(p); }
WEAK void operator delete[](void* p, const std::nothrow_t&) noexcept { free(p); }
WEAK void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
WEAK void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { free(p); }
