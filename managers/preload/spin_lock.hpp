// A lock for a few instructions, which may be taken where a mutex of the C library may not be.

#pragma once

#include <sched.h>

#include <atomic>

namespace tare {

class SpinLock {
 public:
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) sched_yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_ = false;
};

}  // namespace tare
