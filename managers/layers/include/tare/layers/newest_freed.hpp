// Over a stack, where to free an object is to free all newer ones: frees only the newest, so that
// it is safe to free in any order.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <Heap Super>
class NewestFreed : public Super {
 public:
  void* Allocate(std::size_t bytes) { return newest_ = Super::Allocate(bytes); }

  void Free(void* object) {
    if (object != newest_) return;
    Super::Free(object);
    newest_ = nullptr;
  }

  void Clear()
    requires Clearable<Super>
  {
    newest_ = nullptr;
    Super::Clear();
  }

 private:
  void* newest_ = nullptr;
};

}  // namespace tare::layers
