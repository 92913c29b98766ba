// What a thread has: a list of the objects that it freed, and the bounds at which it must look up.
//
// A thread is `busy` while it changes its record. A signal handler that frees meanwhile only puts
// the object on a list, threaded through the objects themselves, which the interrupted call then
// works off. So a handler never enters the allocator in the midst of a free.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "process.hpp"

namespace tare {

inline constexpr std::size_t kVolumeSteps = 64;  // of the shared volume, up to its threshold

enum class Stage : unsigned char { kFresh, kOpen, kClosed };

// In the first cache line is what a free touches.
struct alignas(64) Thread {
  void** position = nullptr;             // where the next object goes
  std::atomic<void**> limit = nullptr;   // of the list, or the next object that is timed
  std::size_t volume = 0;                // bytes held
  std::atomic<std::size_t> trigger = 0;  // volume at which Free does more
  Count moment = 0;                      // sum of `volume` as each object came in
  void* deferred = nullptr;              // objects freed by signal handlers while busy
  Slot* slot = nullptr;
  std::uint32_t until_timed = 1;  // small collections; 1: this one, always so without a slot
  std::atomic<bool> busy = false;
  std::atomic<bool> claimed = false;  // another thread, short of memory, takes the objects
  std::atomic<bool> taken = false;    // it did; the record must be emptied
  Stage stage = Stage::kFresh;

  void** base = nullptr;
  std::size_t capacity = 0;      // objects
  Count samples = 0;             // objects held whose time is known
  Count sample_begins = 0;       // sum of those times
  std::size_t published = 0;     // part of `volume` that is in the shared volume
  std::uint64_t epoch = 0;       // of scope=global
  std::uint32_t time_every = 1;  // how many small collections the timed one stands for
  Thread* next = nullptr;
  Thread* previous = nullptr;
};

constinit inline thread_local TARE_INITIAL_EXEC Thread thread;
inline pthread_key_t thread_end;

inline void BecomeBusy(Thread& t) {
  t.busy.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <typename T>
inline bool IsReached(const std::atomic<T>& bound, T value) {
  return value >= bound.load(std::memory_order_relaxed);
}

inline std::size_t Retained(const Thread& t) {
  return static_cast<std::size_t>(t.position - t.base);
}

// `objects` more come in before Free does more.
inline void SetLimit(Thread& t, std::size_t objects) {
  void** const end = t.base + t.capacity;
  const auto room = static_cast<std::size_t>(end - t.position);
  t.limit.store(t.position + std::min(room, objects), std::memory_order_relaxed);
}

inline std::size_t FirstTrigger() {
  const std::size_t size = process.options.size;
  return process.options.global ? std::max<std::size_t>(1, size / kVolumeSteps) : size;
}

inline void Empty(Thread& t) {
  void** const limit = t.limit.load(std::memory_order_relaxed);
  // A thread that failed to claim the objects has left no limit behind.
  const std::size_t left = limit < t.position ? 0 : static_cast<std::size_t>(limit - t.position);
  t.position = t.base;
  t.volume = 0;
  t.moment = 0;
  t.published = 0;
  t.samples = 0;
  t.sample_begins = 0;
  t.trigger.store(FirstTrigger(), std::memory_order_relaxed);
  SetLimit(t, left);
}

}  // namespace tare
