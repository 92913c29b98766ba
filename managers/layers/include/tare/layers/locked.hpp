// One thread at a time.

#pragma once

#include <mutex>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <Heap Super, Lockable Lock>
class Locked : public Super {
 public:
  void* Allocate(std::size_t bytes) {
    const std::scoped_lock guard(lock_);
    return Super::Allocate(bytes);
  }
  void Free(void* object) {
    const std::scoped_lock guard(lock_);
    Super::Free(object);
  }
  std::size_t Size(void* object)
    requires Sized<Super>
  {
    const std::scoped_lock guard(lock_);
    return Super::Size(object);
  }
  bool Resize(void* object, std::size_t bytes)
    requires Resizable<Super>
  {
    const std::scoped_lock guard(lock_);
    return Super::Resize(object, bytes);
  }
  void Clear()
    requires Clearable<Super>
  {
    const std::scoped_lock guard(lock_);
    Super::Clear();
  }

  void BeforeFork() { lock_.lock(); }
  void AfterFork() { lock_.unlock(); }

 private:
  Lock lock_;
};

}  // namespace tare::layers
