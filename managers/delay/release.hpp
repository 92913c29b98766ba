// A collection: the objects of a thread are given to the allocator underneath, and counted. Time is
// read seldom: a look at the clock takes longer than many a collection.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "poison.hpp"
#include "thread_record.hpp"

namespace tare {

inline constexpr std::uint32_t kTimeSmallEvery = 512;  // small collections, in the long run
inline constexpr std::size_t kSmallObjects = 16;       // fewer objects and bytes are small
inline constexpr std::size_t kSmallBytes = 64 << 10;

inline void Release(void* object) {
  if (process.options.poison) {
    const std::size_t bytes = process.inner.usable_size(object);
    const std::size_t change = FirstChange(object, bytes);
    if (change != bytes) ReportWrite(object, bytes, change);
  }
  process.inner.free(object);
}

inline void ReleaseAll(void** from, void** to) {
  if (process.options.fifo) {
    for (void** at = from; at != to; ++at) Release(*at);
  } else {
    for (void** at = to; at != from;) Release(*--at);
  }
}

// Runs `release`; the moment before, and in `pause` how long it took.
template <typename Work>
inline Count Time(Slot& slot, Work release, Count& pause) {
  const Count begin = Nanoseconds();
  release();
  pause = Nanoseconds() - begin;
  slot.longest_nanoseconds = std::max(slot.longest_nanoseconds, pause);
  return begin;
}

// The first small collections are timed, then ever fewer, because a look at the clock takes longer
// than many of them. One that is timed stands for those since the one before it.
template <typename Work>
inline Count TimeSmall(Thread& t, Work release) {
  Count pause = 0;
  const Count begin = Time(*t.slot, release, pause);
  t.slot->small_pauses.Add(pause, t.time_every);
  t.time_every = std::min(2 * t.time_every, kTimeSmallEvery);
  t.until_timed = t.time_every;
  return begin;
}

inline void CountRetained(const Thread& t, Slot& slot, std::size_t objects, Count released) {
  slot.objects += objects;
  slot.bytes += t.volume;
  slot.held_bytes += objects * t.volume - t.moment;
  slot.largest_bytes = std::max<Count>(slot.largest_bytes, t.volume);
  if (t.samples != 0) {
    slot.sampled_objects += t.samples;
    slot.sampled_nanoseconds += t.samples * (released ? released : Nanoseconds()) - t.sample_begins;
  }
}

// Gives all objects of `t` to the allocator, and counts. Leaves the record as it is. Which free of
// the program collects is not the program's doing, so an allocator that changes errno must not
// show in it.
inline void ReleaseObjects(Thread& t, Cause cause) {
  const std::size_t objects = Retained(t);
  if (objects == 0) return;
  const KeepErrno keep;
  if (t.slot == nullptr) [[unlikely]]
    t.slot = TakeSlot();
  Slot& slot = *t.slot;
  const bool small = objects < kSmallObjects && t.volume < kSmallBytes;
  const auto release = [&t] { ReleaseAll(t.base, t.position); };
  // An object that reaches the threshold alone is on the list within its own free only.
  const bool at_once = objects == 1 && t.volume >= process.options.size;
  ++(at_once ? slot.released_at_once : slot.collections[cause]);
  Count begin = 0;
  if (!small) {
    Count pause = 0;
    begin = Time(slot, release, pause);
    slot.pauses.Add(pause, 1);
  } else if (--t.until_timed == 0) {
    begin = TimeSmall(t, release);
  } else {
    release();
  }
  if (!at_once) CountRetained(t, slot, objects, begin);
}

inline void Collect(Thread& t, Cause cause) {
  ReleaseObjects(t, cause);
  Empty(t);
}

}  // namespace tare
