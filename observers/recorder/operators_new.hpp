// C++'s operators new: each goes on to the one behind it, whose own calls of malloc are not
// recorded.

#pragma once

#include <cstddef>
#include <utility>

#include "calls.hpp"
#include "inner.hpp"
#include "next.hpp"
#include "tare/platform/loaded_objects.hpp"

namespace tare::recorder {

// Where no C++ library was there at the start, nothing can throw.
template <bool kThrows>
void* NewOverMalloc(std::size_t bytes, std::size_t alignment) {
  void* const object =
      alignment == 0 ? setting.inner.malloc(bytes)
                     : Next<"memalign", void*(std::size_t, std::size_t)>::Call(alignment, bytes);
  if (object != nullptr || !kThrows) return object;
  Message message;
  message << "tare-recorder: memory is out, and there is no operator new that could throw";
  Abort(message);
}

// The operator new behind this one. Where it is the C++ library's, which calls malloc and no more,
// a call that is not recorded goes to malloc itself.
template <SymbolName kSymbol, typename... More>
struct NextNew {
  using Function = void*(std::size_t, More...);
  static constinit inline Function* function = nullptr;
  static constinit inline bool is_missing = false;
  static constinit inline bool is_allocators_own = false;  // else it calls malloc, which counts
  static constinit inline bool is_malloc = false;

  static void Find() {
    if (function != nullptr || is_missing) return;
    is_missing = !FindNext(kSymbol.text, function);
    is_allocators_own =
        is_missing || ObjectOf(function).dli_fbase == ObjectOf(setting.inner.malloc).dli_fbase;
    is_malloc = !is_allocators_own && platform::IsCxxLibrary(FileOf(function));
  }
};

template <SymbolName kSymbol, bool kThrows, typename... More>
inline void* New(const Caller& caller, std::size_t bytes, std::size_t alignment, More... more) {
  using Behind = NextNew<kSymbol, More...>;
  if ((WouldPass(bytes) || PowerNow() == Power::kOff) && Behind::function != nullptr) {
    if (Behind::is_allocators_own) Passes(bytes);
    return Behind::function(bytes, more...);
  }
  BeginOnce();
  Behind::Find();
  const Operator outermost = Outermost(alignment == 0 ? kNew : kAlignedNew, caller);
  // A call of malloc counts, and passes, by itself.
  const bool passes = Behind::is_allocators_own ? Passes(bytes) : sampled != nullptr;
  inside = &outermost;
  void* const object = Behind::is_missing ? NewOverMalloc<kThrows>(bytes, alignment)
                                          : Behind::function(bytes, more...);
  const bool was_recorded = std::exchange(inside, nullptr) == nullptr;
  if (object != nullptr && !was_recorded && !passes)
    RecordBirth(outermost.kind, object, bytes, alignment, outermost.caller);
  return object;
}

template <SymbolName kSymbol, bool kThrows>
__attribute__((noinline)) inline void* RecordedNew(std::size_t n) {
  return New<kSymbol, kThrows>(CallerHere(), n, std::size_t{0});
}

template <SymbolName kSymbol, bool kThrows>
__attribute__((noinline)) inline void* NewWhileOff(std::size_t n) {
  void* const object = setting.inner.malloc(n + (n == 0));
  return object != nullptr ? object : RecordedNew<kSymbol, kThrows>(n);
}

template <SymbolName kSymbol, bool kThrows>
inline void* PlainNew(std::size_t n) {
  if (!NextNew<kSymbol>::is_malloc) return RecordedNew<kSymbol, kThrows>(n);
  if (Passes(n)) {
    void* const object = setting.inner.malloc(n + (n == 0));
    return object != nullptr ? object : RecordedNew<kSymbol, kThrows>(n);
  }
  if (PowerNow() == Power::kOff && sampled == nullptr) return NewWhileOff<kSymbol, kThrows>(n);
  return RecordedNew<kSymbol, kThrows>(n);
}

}  // namespace tare::recorder
