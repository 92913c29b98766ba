// Counts what goes on.

#pragma once

#include <algorithm>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

struct Counts {
  std::size_t allocations = 0;
  std::size_t frees = 0;
  std::size_t live_bytes = 0;
  std::size_t most_live_bytes = 0;
};

template <SizedHeap Super>
class Counted : public Super {
 public:
  void* Allocate(std::size_t bytes) {
    void* const object = Super::Allocate(bytes);
    if (object == nullptr) return nullptr;
    ++counts_.allocations;
    counts_.live_bytes += Super::Size(object);
    counts_.most_live_bytes = std::max(counts_.most_live_bytes, counts_.live_bytes);
    return object;
  }
  void Free(void* object) {
    ++counts_.frees;
    counts_.live_bytes -= Super::Size(object);
    Super::Free(object);
  }
  const Counts& GetCounts() const { return counts_; }

 private:
  Counts counts_;
};

}  // namespace tare::layers
