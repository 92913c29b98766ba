// Before a heap that splits and joins: objects freed lately, by exact size, which it is spared. The
// heap must round sizes up to kStep and no further, or its objects are put where nobody looks.

#pragma once

#include <algorithm>
#include <array>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <SizedHeap Super, std::size_t kLists, std::size_t kStep = kAlignment>
class QuickLists : public Super {
 public:
  static_assert(kStep >= sizeof(void*), "a freed object must have room for a pointer");

  void* Allocate(std::size_t bytes) {
    if (bytes > kLists * kStep) return Super::Allocate(bytes);
    const std::size_t number = (std::max(bytes, kLeast) - 1) / kStep;
    void* const object = lists_[number];
    if (object == nullptr) return Super::Allocate((number + 1) * kStep);
    lists_[number] = *static_cast<void**>(object);
    return object;
  }

  void Free(void* object) {
    const std::size_t bytes = Super::Size(object);
    if (bytes > kLists * kStep || bytes < kStep) return Super::Free(object);
    void*& list = lists_[bytes / kStep - 1];  // all in it are at least as large as their list's
    *static_cast<void**>(object) = list;
    list = object;
  }

  // Gives all that the lists hold to the heap, which can join it.
  void Flush() {
    for (void*& list : lists_) {
      while (list != nullptr) {
        void* const object = list;
        list = *static_cast<void**>(object);
        Super::Free(object);
      }
    }
  }

  void Clear()
    requires Clearable<Super>
  {
    lists_ = {};
    Super::Clear();
  }

 private:
  static constexpr std::size_t kLeast = std::max<std::size_t>(kLeastOf<Super>, 1);

  std::array<void*, kLists> lists_ = {};
};

}  // namespace tare::layers
