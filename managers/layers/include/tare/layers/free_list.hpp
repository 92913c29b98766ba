// Objects of one size, those that were freed first: a per-class allocator.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <ObjectAllocator Super, std::size_t kBytes>
class FreeList : public Super {
 public:
  static_assert(kBytes >= sizeof(void*), "a freed object must have room for a pointer");

  void* Allocate(std::size_t bytes) {
    if (bytes > kBytes) return nullptr;
    if (free_ == nullptr) return Super::Allocate(kBytes);
    void* const object = free_;
    free_ = *static_cast<void**>(object);
    return object;
  }

  void Free(void* object) {
    *static_cast<void**>(object) = free_;
    free_ = object;
  }

  std::size_t Size(void*) { return kBytes; }

  void Clear()
    requires Clearable<Super>
  {
    free_ = nullptr;
    Super::Clear();
  }

 private:
  void* free_ = nullptr;
};

}  // namespace tare::layers
