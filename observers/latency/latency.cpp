// libtare-latency.so: preloaded in front of an allocator, it times each call of the malloc family;
// see format.hpp for what it leaves.
//
// It stands for the whole malloc family, and for C++'s operators, and passes each call on to the
// next object that defines the function. malloc_usable_size is left to the allocator.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "next.hpp"
#include "operators_delete.hpp"
#include "process.hpp"
#include "tare/platform/exported.hpp"
#include "timed.hpp"

using namespace tare::latency;
using std::size_t;
using tare::Next;

namespace {

// Also of a process that never calls malloc there is a file.
__attribute__((constructor)) void Constructor() { OwnShard(); }
__attribute__((destructor)) void Destructor() { NoteEnd(); }

// The allocator that is found with the first call, whoever makes it.
const tare::Inner& Inner() {
  if (setting.inner.free == nullptr) [[unlikely]]
    Begin();
  return setting.inner;
}

void* Resize(void* p, size_t n) {
  return Timed<kRealloc>(n, [p, n] { return Inner().realloc(p, n); });
}

void Free(void* p) {
  if (p == nullptr) return;
  Timed<kFree>(0, [p] {
    Inner().free(p);
    return 0;
  });
}

template <tare::SymbolName kSymbol>
void* Aligned(size_t a, size_t n) {
  return Timed<kAligned>(n, [a, n] { return Next<kSymbol, void*(size_t, size_t)>::Call(a, n); });
}

template <tare::SymbolName kSymbol>
void* OfPages(size_t n) {
  return Timed<kAligned>(n, [n] { return Next<kSymbol, void*(size_t)>::Call(n); });
}

// Where no C++ library was there at the start, nothing can throw.
template <bool kThrows>
void* NewOverMalloc(size_t n, size_t a) {
  void* const object =
      a == 0 ? Timed<kMalloc>(n, [n] { return Inner().malloc(n); }) : Aligned<"memalign">(a, n);
  if (object != nullptr || !kThrows) return object;
  tare::Message message;
  message << "tare-latency: memory is out, and there is no operator new that could throw";
  tare::Abort(message);
}

template <tare::SymbolName kSymbol, bool kThrows, typename... More>
void* New(size_t n, size_t a, More... more) {
  using Behind = NextOperator<kSymbol, void*, size_t, More...>;
  Behind::Find();
  if (Behind::is_missing) return NewOverMalloc<kThrows>(n, a);
  if (!Behind::is_allocators_own) return Behind::function(n, more...);
  const auto call = [=] { return Behind::function(n, more...); };
  return a == 0 ? TimedThrowing<kMalloc>(n, call) : TimedThrowing<kAligned>(n, call);
}

template <tare::SymbolName kSymbol, typename... More>
void Delete(void* p, More... more) {
  using Behind = NextOperator<kSymbol, void, void*, More...>;
  if (p == nullptr) return;
  Behind::Find();
  if (Behind::is_missing) return Free(p);
  if (!Behind::is_allocators_own) return Behind::function(p, more...);
  Timed<kFree>(0, [=] {
    Behind::function(p, more...);
    return 0;
  });
}

}  // namespace

EXPORT void* malloc(size_t n) {
  return Timed<kMalloc>(n, [n] { return Inner().malloc(n); });
}
EXPORT void* calloc(size_t n, size_t m) {
  return Timed<kCalloc>(n * m, [n, m] { return Inner().calloc(n, m); });
}
EXPORT void* realloc(void* p, size_t n) { return Resize(p, n); }
EXPORT void* reallocarray(void* p, size_t n, size_t m) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, m, &bytes)) return Resize(p, bytes);
  errno = ENOMEM;
  return nullptr;
}
EXPORT void* memalign(size_t a, size_t n) { return Aligned<"memalign">(a, n); }
EXPORT void* aligned_alloc(size_t a, size_t n) { return Aligned<"aligned_alloc">(a, n); }
EXPORT int posix_memalign(void** p, size_t a, size_t n) {
  return Timed<kAligned>(
      n, [=] { return Next<"posix_memalign", int(void**, size_t, size_t)>::Call(p, a, n); });
}
EXPORT void* valloc(size_t n) { return OfPages<"valloc">(n); }
EXPORT void* pvalloc(size_t n) { return OfPages<"pvalloc">(n); }

EXPORT void free(void* p) { Free(p); }
EXPORT void cfree(void* p) { Free(p); }
EXPORT void free_sized(void* p, size_t) { Free(p); }
EXPORT void free_aligned_sized(void* p, size_t, size_t) { Free(p); }

#define NAMED_0(symbol) \
  EXPORT void symbol(void* p) { Delete<#symbol>(p); }
#define NAMED_1(symbol, A) \
  EXPORT void symbol(void* p, A a) { Delete<#symbol, A>(p, a); }
#define NAMED_2(symbol, A, B) \
  EXPORT void symbol(void* p, A a, B b) { Delete<#symbol, A, B>(p, a, b); }
#define CHOSEN(a, b, c, name, ...) name
#define OPERATOR_DELETE(...) CHOSEN(__VA_ARGS__, NAMED_2, NAMED_1, NAMED_0, )(__VA_ARGS__)
TARE_EACH_OPERATOR_DELETE(OPERATOR_DELETE)

#define OPERATOR_NEW(symbol)                                                              \
  EXPORT void* symbol(size_t n) { return New<#symbol, true>(n, size_t{0}); }              \
  EXPORT void* symbol##RKSt9nothrow_t(size_t n, const void* t) {                          \
    return New<#symbol "RKSt9nothrow_t", false>(n, size_t{0}, t);                         \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_t(size_t n, size_t a) {                              \
    return New<#symbol "St11align_val_t", true>(n, a, a);                                 \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_tRKSt9nothrow_t(size_t n, size_t a, const void* t) { \
    return New<#symbol "St11align_val_tRKSt9nothrow_t", false>(n, a, a, t);               \
  }
OPERATOR_NEW(_Znwm)
OPERATOR_NEW(_Znam)

// A process that ends so runs no destructors.
EXPORT [[noreturn]] void _exit(int status) {
  NoteEnd();
  for (;;) syscall(SYS_exit_group, status);
}
EXPORT [[noreturn]] void _Exit(int status) { _exit(status); }
