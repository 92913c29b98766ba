// The functions that allocate. Their cost is the allocator's own, so that of the layer is kept out:
// each is one jump to the function underneath, through a pointer. Only where memory can run short
// (a limit of the process, or a kernel that does not overcommit) does the pointer lead to a guard,
// which gives the quarantine back before it lets an allocation fail.

#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include "next.hpp"
#include "operators_new.hpp"
#include "quarantine.hpp"

namespace tare {

constinit inline std::atomic<bool> memory_is_bounded = false;

// A pointer to a function, which any thread may be the first to find.
template <typename Function>
class Found {
 public:
  constexpr explicit Found(Function* function) : function_(function) {}
  Function* Get() const { return function_.load(std::memory_order_relaxed); }
  void Set(Function* function) { function_.store(function, std::memory_order_relaxed); }

 private:
  std::atomic<Function*> function_;
};

inline bool Failed(void* object) { return object == nullptr; }
inline bool Failed(int error) { return error == ENOMEM; }

template <SymbolName kSymbol, typename Result, typename... Arguments>
struct Allocation {
  using Function = Result(Arguments...);

  static Result Call(Arguments... arguments) { return target.Get()(arguments...); }

  static Function* Inner() {
    Function* function = inner.Get();
    if (function == nullptr) {
      RequireNext(kSymbol.text, function);
      inner.Set(function);
    }
    return function;
  }

  // Again when memory_is_bounded changes.
  static void Direct() {
    if (inner.Get() != nullptr) target.Set(memory_is_bounded ? Guarded : inner.Get());
  }

  static Result First(Arguments... arguments) {
    Inner();
    Direct();
    return Call(arguments...);
  }

  static Result Guarded(Arguments... arguments) {
    const int before = errno;
    const Result result = Inner()(arguments...);
    if (!Failed(result) || !GiveBack()) return result;
    errno = before;
    return Inner()(arguments...);
  }

  static constinit inline Found<Function> target{First};
  static constinit inline Found<Function> inner{nullptr};
};

using Malloc = Allocation<"malloc", void*, std::size_t>;
using Calloc = Allocation<"calloc", void*, std::size_t, std::size_t>;
using Realloc = Allocation<"realloc", void*, void*, std::size_t>;
using Memalign = Allocation<"memalign", void*, std::size_t, std::size_t>;
using AlignedAlloc = Allocation<"aligned_alloc", void*, std::size_t, std::size_t>;
using PosixMemalign = Allocation<"posix_memalign", int, void**, std::size_t, std::size_t>;
using Valloc = Allocation<"valloc", void*, std::size_t>;
using Pvalloc = Allocation<"pvalloc", void*, std::size_t>;

// C++'s operators new. An inner one throws, or calls a handler of the program; so the guard tries
// malloc first. The inner one may be missing: nothing that was there at the start is in C++.
template <SymbolName kSymbol, typename Function>
struct New;

template <SymbolName kSymbol, typename... More>
struct New<kSymbol, void*(std::size_t, More...)> {
  using Function = void*(std::size_t, More...);

  static void* OverMalloc(std::size_t bytes, More... more) {
    void* const object = Try(bytes, more...);
    if (object != nullptr || sizeof...(More) == 2) return object;
    Message message;
    message << "tare-delay: memory is out, and there is no operator new that could throw";
    Abort(message);
  }

  static void* Try(std::size_t bytes) { return Malloc::Call(bytes); }
  static void* Try(std::size_t bytes, const void*) { return Malloc::Call(bytes); }
  static void* Try(std::size_t bytes, std::size_t alignment) {
    return Memalign::Call(alignment, bytes);
  }
  static void* Try(std::size_t bytes, std::size_t alignment, const void*) {
    return Memalign::Call(alignment, bytes);
  }

  static void* Call(std::size_t bytes, More... more) { return target.Get()(bytes, more...); }

  static void FindInner() {
    Function* function = inner.Get();
    if (function == nullptr && !FindNext(kSymbol.text, function)) function = OverMalloc;
    inner.Set(function);
  }

  static void Direct() {
    if (inner.Get() != nullptr) target.Set(memory_is_bounded ? Guarded : inner.Get());
  }

  static void* First(std::size_t bytes, More... more) {
    FindInner();
    Direct();
    return Call(bytes, more...);
  }

  static void* Guarded(std::size_t bytes, More... more) {
    void* const object = Try(bytes, more...);
    return object != nullptr ? object : inner.Get()(bytes, more...);
  }

  static constinit inline Found<Function> target{First};
  static constinit inline Found<Function> inner{nullptr};
};

template <typename... Functions>
void DirectEach() {
  (Functions::Direct(), ...);
}

inline void DirectAll() {
  DirectEach<Malloc, Calloc, Realloc, Memalign, AlignedAlloc, PosixMemalign, Valloc, Pvalloc>();
#define DIRECT_NEW(symbol, parameters, arguments) New<#symbol, void * parameters>::Direct();
  TARE_EACH_OPERATOR_NEW(DIRECT_NEW)
#undef DIRECT_NEW
}

// An object may stay where it is when it fits and would not waste more than it holds. One that is
// as large as the threshold would leave the quarantine at once, so the allocator may resize it in
// place, or move its pages.
inline void* Reallocate(void* object, std::size_t bytes, FreeFunction free_object) {
  const std::size_t usable = process.inner.usable_size(object);
  if (bytes == 0 || usable >= process.options.size) return Realloc::Call(object, bytes);
  if (bytes <= usable && bytes > usable / 2) return object;
  void* const moved = Malloc::Call(bytes);
  if (moved == nullptr) return nullptr;
  memcpy(moved, object, std::min(usable, bytes));
  free_object(object);
  return moved;
}

}  // namespace tare
