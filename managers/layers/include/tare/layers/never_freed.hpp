// Frees nothing: objects stay until all go.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <ObjectAllocator Super>
class NeverFreed : public Super {
 public:
  void Free(void*) {}
};

}  // namespace tare::layers
