// libtare-delay.so: preloaded in front of an allocator, it delays the reuse of what is freed.
//
// It stands for all that frees: free, cfree, free_sized, free_aligned_sized, realloc,
// reallocarray and the operators delete. See quarantine.hpp for what they do, allocation.hpp for
// why the functions that allocate are here too. malloc_usable_size is left to the allocator.

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "allocation.hpp"
#include "limits.hpp"
#include "operators_delete.hpp"
#include "quarantine.hpp"
#include "tare/platform/exported.hpp"

namespace tare {
namespace {

void FirstFree(void* object);
constinit Found<void(void*)> free_target{FirstFree};
constinit bool began = false;

bool KernelOvercommits() {
  const int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char mode = '0';
  if (fd < 0 || read(fd, &mode, 1) != 1) mode = '0';
  if (fd >= 0) close(fd);
  return mode != '2';
}

bool IsLimited(decltype(RLIMIT_AS) resource) {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// At the first call that can read the environment, and at the latest as a constructor.
void BeginOnce() {
  if (began) return;
  began = true;
  const KeepErrno keep;
  Resolve(process.inner);
  Begin(ReadOptions(), getenv("TARE_DELAY_COUNTERS"));
  if (OwnHeader(process) != nullptr) ShowInner(*process.header, process.inner);
  NoticeLimits();
  if (!KernelOvercommits()) GuardAllocations();
}

// The dynamic linker allocates before the C library knows its environment.
void FirstFree(void* object) {
  if (environ == nullptr) {
    if (process.inner.free == nullptr) Resolve(process.inner);
    process.inner.free(object);
    return;
  }
  BeginOnce();
  std::atomic_ref(process.inner.size_in_header)
      .store(HeaderTellsSize(process.inner, object), std::memory_order_relaxed);
  free_target.Set(ChooseFree(process.options));
  free_target.Get()(object);
}

__attribute__((constructor)) void Constructor() {
  BeginOnce();
  HandleForks();
}

__attribute__((destructor)) void Destructor() { CloseThisThread(); }

inline void FreeObject(void* object) {
  if (object != nullptr) free_target.Get()(object);
}

}  // namespace

void GuardAllocations() {
  memory_is_bounded = true;
  DirectAll();
}

void NoticeLimits() {
  if (!memory_is_bounded && (IsLimited(RLIMIT_AS) || IsLimited(RLIMIT_DATA))) GuardAllocations();
}

}  // namespace tare

using std::size_t;

EXPORT void free(void* p) { tare::FreeObject(p); }
EXPORT void cfree(void* p) { tare::FreeObject(p); }
EXPORT void free_sized(void* p, size_t) { tare::FreeObject(p); }
EXPORT void free_aligned_sized(void* p, size_t, size_t) { tare::FreeObject(p); }

EXPORT void* malloc(size_t n) { return tare::Malloc::Call(n); }
EXPORT void* calloc(size_t n, size_t m) { return tare::Calloc::Call(n, m); }
EXPORT void* memalign(size_t a, size_t n) { return tare::Memalign::Call(a, n); }
EXPORT void* aligned_alloc(size_t a, size_t n) { return tare::AlignedAlloc::Call(a, n); }
EXPORT int posix_memalign(void** p, size_t a, size_t n) {
  return tare::PosixMemalign::Call(p, a, n);
}
EXPORT void* valloc(size_t n) { return tare::Valloc::Call(n); }
EXPORT void* pvalloc(size_t n) { return tare::Pvalloc::Call(n); }

EXPORT void* realloc(void* p, size_t n) {
  if (p == nullptr) return tare::Malloc::Call(n);
  if (!tare::began || !tare::process.options.delay_realloc) return tare::Realloc::Call(p, n);
  return tare::Reallocate(p, n, tare::free_target.Get());
}
EXPORT void* reallocarray(void* p, size_t n, size_t m) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, m, &bytes)) return realloc(p, bytes);
  errno = ENOMEM;
  return nullptr;
}

// For an observer in the same process, at a moment when no function of the layer runs in its
// thread.
EXPORT void tare_layer_held(void (*each)(void*, size_t, void*), void* data) {
  tare::VisitHeld(each, data);
}

#define OPERATOR_DELETE(symbol, ...) \
  EXPORT void symbol(void* p __VA_OPT__(, ) __VA_ARGS__) { tare::FreeObject(p); }
TARE_EACH_OPERATOR_DELETE(OPERATOR_DELETE)

#define OPERATOR_NEW(symbol, parameters, arguments) \
  EXPORT void* symbol parameters { return tare::New<#symbol, void * parameters>::Call arguments; }
TARE_EACH_OPERATOR_NEW(OPERATOR_NEW)
