// Keeps the size of each object before it.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <ObjectAllocator Super>
class SizeHeaders : public Super {
 public:
  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX - sizeof(Header)) return nullptr;
    auto* const header = static_cast<Header*>(Super::Allocate(bytes + sizeof(Header)));
    if (header == nullptr) return nullptr;
    header->bytes = bytes;
    return header + 1;
  }

  void Free(void* object)
    requires Heap<Super>
  {
    Super::Free(HeaderOf(object));
  }

  std::size_t Size(void* object) { return HeaderOf(object)->bytes; }

 private:
  struct alignas(kAlignment) Header {
    std::size_t bytes;
  };

  static Header* HeaderOf(void* object) { return static_cast<Header*>(object) - 1; }
};

}  // namespace tare::layers
