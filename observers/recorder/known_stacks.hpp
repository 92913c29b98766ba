// Where walks have found stacks. When one goes, so does what is known of it: another mapping, or
// none, can come in its place.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "signals.hpp"
#include "spin_lock.hpp"

namespace tare::recorder {

class KnownStacks {
 public:
  void Add(std::uintptr_t start, std::uintptr_t end) {
    const BlockSignals blocked;
    // Without it, one who got a place before all were forgotten could write there afterwards, over
    // the range of another.
    const std::scoped_lock guard(lock_);
    const std::size_t place = used_.load(std::memory_order_relaxed);
    if (place > kMost) return;
    if (place < kMost) {
      ranges_[place].start.store(start, std::memory_order_relaxed);
      ranges_[place].end.store(end, std::memory_order_relaxed);
    }
    used_.store(place + 1, std::memory_order_release);
  }

  // Whether a stack lies, or may lie, there.
  bool Overlap(std::uintptr_t start, std::uintptr_t end) const {
    const std::size_t used = used_.load(std::memory_order_acquire);
    if (used > kMost) return true;
    for (std::size_t i = 0; i < used; ++i)
      if (start < ranges_[i].end.load(std::memory_order_relaxed) &&
          ranges_[i].start.load(std::memory_order_relaxed) < end)
        return true;
    return false;
  }

  // Who knows of a stack forgets it, and adds it again. `generation` tells them so: before, lest
  // another finds nothing here while they still know it; and again for those that have added theirs
  // in between.
  void Forget(std::atomic<std::uint32_t>& generation) {
    const BlockSignals blocked;
    const std::scoped_lock guard(lock_);
    generation.fetch_add(1, std::memory_order_acq_rel);
    used_.store(0, std::memory_order_release);
    generation.fetch_add(1, std::memory_order_acq_rel);
  }

 private:
  static constexpr std::size_t kMost = 1024;
  struct Range {
    std::atomic<std::uintptr_t> start, end;
  };
  std::array<Range, kMost> ranges_{};
  std::atomic<std::size_t> used_ = 0;
  SpinLock lock_;
};

}  // namespace tare::recorder
