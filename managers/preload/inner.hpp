// The allocator under the layer: the next object after this one, in the dynamic linker's order,
// that defines each function.

#pragma once

#include <dlfcn.h>
#include <sched.h>

#include <cstddef>

#include "../../platform/include/tare/platform/glibc_chunk.hpp"
#include "system.hpp"

namespace tare {

struct Inner {
  void (*free)(void*) = nullptr;
  std::size_t (*usable_size)(void*) = nullptr;
  void* (*malloc)(std::size_t) = nullptr;
  void* (*calloc)(std::size_t, std::size_t) = nullptr;
  void* (*realloc)(void*, std::size_t) = nullptr;
  bool size_in_header = false;
};

using platform::SizeInHeader;

// An object that came into a running process stands in front of nothing: what it shows to nobody is
// behind all.
#ifdef TARE_ATTACHED
#define TARE_BEHIND RTLD_DEFAULT
#else
#define TARE_BEHIND RTLD_NEXT
#endif

template <typename Function>
bool FindNext(const char* symbol, Function*& found) {
  found = reinterpret_cast<Function*>(dlsym(TARE_BEHIND, symbol));
  return found != nullptr;
}

template <typename Function>
void RequireNext(const char* symbol, Function*& found) {
  if (FindNext(symbol, found)) return;
  Message message;
  message << "tare: no object behind this one defines " << symbol
          << "; an allocator must come after it in LD_PRELOAD";
  Abort(message);
}

template <typename Function>
Dl_info ObjectOf(Function* function) {
  Dl_info information{};
  if (dladdr(reinterpret_cast<void*>(function), &information) == 0) return {};
  return information;
}

// The file that holds `function`, as the dynamic linker has it.
template <typename Function>
const char* FileOf(Function* function) {
  const char* const name = ObjectOf(function).dli_fname;
  return name != nullptr ? name : "-";
}

// Whether `object`, from the inner allocator, shows that this is glibc and that its size is there.
inline bool HeaderTellsSize(const Inner& inner, void* object) {
  return ObjectOf(inner.free).dli_fbase == ObjectOf(sched_yield).dli_fbase &&
         SizeInHeader(object) == inner.usable_size(object);
}

// These four first: a look-up that fails allocates its error message, and by then must find them.
inline void Resolve(Inner& inner) {
  RequireNext("malloc", inner.malloc);
  RequireNext("calloc", inner.calloc);
  RequireNext("realloc", inner.realloc);
  RequireNext("free", inner.free);
  RequireNext("malloc_usable_size", inner.usable_size);
  if (ObjectOf(inner.free).dli_fbase == ObjectOf(inner.usable_size).dli_fbase) return;
  // A layer leaves it to the allocator. Asked only here: a look-up that fails allocates.
  if (dlsym(TARE_BEHIND, "tare_layer_held") != nullptr) return;
  Message message;
  message << "tare: " << FileOf(inner.free)
          << " defines free but not malloc_usable_size, so the size of what is freed is not known";
  Abort(message);
}

}  // namespace tare
