// A piece of memory, aligned to its size, that holds objects of one size; it is found from an
// object by the object's address.

#pragma once

#include <atomic>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <std::size_t kBytes>
class Superblock {
 public:
  // For one large object, which `memory` of `bytes` holds with the superblock before it.
  Superblock(void* memory, std::size_t bytes, std::size_t object_bytes)
      : memory_(memory), memory_bytes_(bytes), object_bytes_(object_bytes) {}

  explicit Superblock(std::size_t object_bytes) { Reset(object_bytes); }

  static Superblock* Of(void* object) {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    return reinterpret_cast<Superblock*>(address - address % kBytes);
  }

  // Where the first superblock at or above `memory` may begin.
  static char* Above(void* memory) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return static_cast<char*>(memory) + (RoundUp(address, kBytes) - address);
  }

  // Only while it is empty.
  void Reset(std::size_t object_bytes) {
    object_bytes_ = object_bytes;
    capacity_ = (kBytes - sizeof(Superblock)) / object_bytes;
    begun_ = 0;
    free_ = nullptr;
  }

  // Only when it is not full.
  void* Allocate() {
    ++used_;
    if (free_ == nullptr) return First() + begun_++ * object_bytes_;
    void* const object = free_;
    free_ = *static_cast<void**>(object);
    return object;
  }

  void Free(void* object) {
    --used_;
    *static_cast<void**>(object) = free_;
    free_ = object;
  }

  char* First() { return reinterpret_cast<char*>(this + 1); }
  bool IsLarge() const { return memory_ != nullptr; }
  void* Memory() const { return memory_; }
  std::size_t MemoryBytes() const { return memory_bytes_; }
  std::size_t ObjectBytes() const { return object_bytes_; }
  std::size_t Used() const { return used_; }
  std::size_t Capacity() const { return capacity_; }
  std::size_t UsedBytes() const { return used_ * object_bytes_; }

  // For its holder.
  std::atomic<void*> owner = nullptr;
  Superblock* next = nullptr;
  Superblock* previous = nullptr;

 private:
  void* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::size_t object_bytes_ = 0;
  std::size_t capacity_ = 1;
  std::size_t used_ = 0;
  std::size_t begun_ = 0;  // objects that were ever given out
  void* free_ = nullptr;
};

}  // namespace tare::layers
