// Tells an observer of each operation.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <typename T>
concept Observer = requires(T observer, void* object, std::size_t bytes) {
  observer.Allocated(object, bytes);
  observer.Freed(object);
};

template <Heap Super, Observer Watching>
class Traced : public Super {
 public:
  void* Allocate(std::size_t bytes) {
    void* const object = Super::Allocate(bytes);
    if (object != nullptr) observer_.Allocated(object, bytes);
    return object;
  }
  void Free(void* object) {
    observer_.Freed(object);
    Super::Free(object);
  }
  Watching& GetObserver() { return observer_; }

 private:
  Watching observer_;
};

}  // namespace tare::layers
