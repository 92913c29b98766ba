// A lock for sections of a few instructions. It costs one atomic exchange, and no call.

#pragma once

#include <sched.h>

#include <atomic>

namespace tare::layers {

class SpinLock {
 public:
  void lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries)
      while (held_.load(std::memory_order_relaxed))
        if (tries++ > kTriesBeforeYield) sched_yield();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTriesBeforeYield = 100;  // the holder may have lost its processor

  std::atomic<bool> held_ = false;
};

}  // namespace tare::layers
