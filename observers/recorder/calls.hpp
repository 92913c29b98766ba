// The calls of the malloc family: each goes on to the allocator, and what it does is recorded.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "begin.hpp"
#include "event.hpp"
#include "process.hpp"
#include "sampling.hpp"
#include "tare/platform/frames.hpp"

namespace tare::recorder {

using platform::CallerHere;

// The operator new that this thread is in, for the calls that it makes itself. Whoever records the
// birth takes it away.
constinit inline thread_local TARE_INITIAL_EXEC const Operator* inside = nullptr;

inline Operator Outermost(Kind kind, const Caller& caller) {
  const Operator* const outer = std::exchange(inside, nullptr);
  return outer != nullptr ? *outer : Operator{caller, kind};
}

template <typename Allocate>
inline void* Birth(Kind kind, std::size_t bytes, std::size_t alignment, const Caller& caller,
                   Allocate allocate) {
  if (Passes(bytes) || IsOff()) return allocate();
  const Operator outermost = Outermost(kind, caller);
  void* const object = allocate();
  if (object != nullptr) [[likely]]
    RecordBirth(outermost.kind, object, bytes, alignment, outermost.caller);
  return object;
}

inline bool DeathPasses(const void* object) {
  return sampled != nullptr ? !sampled->MayContain(object) : IsOff();
}

inline void* ResizeSampled(void* object, std::size_t bytes, const Caller& caller) {
  const bool passes = Passes(bytes);
  const bool is_off = PowerNow() == Power::kOff;
  if ((passes || is_off) && !sampled->MayContain(object))
    return setting.inner.realloc(object, bytes);
  const std::uint64_t begin = Ticks();
  const bool was_sampled = sampled->Remove(object);
  void* const moved = setting.inner.realloc(object, bytes);
  if (moved == nullptr && bytes != 0) {
    if (was_sampled) sampled->Insert(object);
    return nullptr;
  }
  if (was_sampled) RecordDeathAt(begin, object, 0, caller);
  if (moved != nullptr && !passes && !is_off) RecordBirth(kRealloc, moved, bytes, 0, caller);
  return moved;
}

inline void* Resize(void* object, std::size_t bytes, const Caller& caller) {
  if (object == nullptr)
    return Birth(kRealloc, bytes, 0, caller, [&] { return setting.inner.realloc(nullptr, bytes); });
  BeginOnce();
  if (sampled != nullptr) return ResizeSampled(object, bytes, caller);
  if (IsOff()) return setting.inner.realloc(object, bytes);
  if (snapshot::on) LookBefore(object);
  const std::uint64_t begin = Ticks();
  void* const moved = setting.inner.realloc(object, bytes);
  if (moved == nullptr && bytes != 0) return nullptr;
  RecordDeathAt(begin, object, moved != nullptr ? kMoved : 0, caller);
  if (moved != nullptr) RecordBirth(kRealloc, moved, bytes, 0, caller);
  return moved;
}

// What most calls do needs no frame. The rest is reached by a jump, so the caller is still that of
// the frame.

__attribute__((noinline)) inline void* RecordedMalloc(std::size_t n) {
  return Birth(kMalloc, n, 0, CallerHere(), [n] { return setting.inner.malloc(n); });
}

__attribute__((noinline)) inline void RecordedFree(void* p) {
  if (p == nullptr) return;
  BeginOnce();
  RecordDeath(p, CallerHere());
  setting.inner.free(p);
}

inline void Free(void* p) {
  if (DeathPasses(p)) return setting.inner.free(p);
  return RecordedFree(p);
}

}  // namespace tare::recorder
