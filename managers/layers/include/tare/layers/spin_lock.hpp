// A lock for sections of a few instructions. It costs one atomic exchange, and no call.

#pragma once

#include <sched.h>
#include <sys/single_threaded.h>

#include <atomic>

namespace tare::layers {

class SpinLock {
 public:
  void lock() {
    if (held_.exchange(true, std::memory_order_acquire)) Wait();
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTriesBeforeYield = 100;  // the holder may have lost its processor

  // Apart, so that who finds the lock free saves no registers for it.
  [[gnu::noinline, gnu::cold]] void Wait() {
    int tries = 0;
    do {
      while (held_.load(std::memory_order_relaxed))
        if (tries++ > kTriesBeforeYield) sched_yield();
    } while (held_.exchange(true, std::memory_order_acquire));
  }

  std::atomic<bool> held_ = false;
};

// The same, but free of cost while the process has one thread, as the C library tells.
class SpinLockOfThreads {
 public:
  void lock() {
    if (__libc_single_threaded == 0) lock_.lock();
  }
  // Always: a fork may have left the process with one thread, and the lock held.
  void unlock() { lock_.unlock(); }

 private:
  SpinLock lock_;
};

}  // namespace tare::layers
