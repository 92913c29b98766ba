// Which reap a piece of memory belongs to, for any address. Two levels, of which the second is
// mapped as it is needed and never given back.

#pragma once

#include <atomic>

#include "chunk.hpp"

namespace tare::reap {

struct Reap;

class OwnerMap {
 public:
  // False when memory is short.
  bool Set(Chunk* chunk, Reap* owner) {
    const std::uintptr_t first = Number(chunk);
    const std::uintptr_t count = chunk->bytes / kSmallestChunk;
    for (std::uintptr_t number = first; number < first + count; ++number) {
      Leaf* const leaf = LeafOf(number);
      if (leaf == nullptr) return false;
      leaf->owners[number % kLeafSize].store(owner, std::memory_order_relaxed);
    }
    return true;
  }

  Reap* Get(const void* address) const {
    const std::uintptr_t number = Number(address);
    if (number / kLeafSize >= kRootSize) return nullptr;
    const Leaf* const leaf = root_[number / kLeafSize].load(std::memory_order_acquire);
    return leaf == nullptr ? nullptr
                           : leaf->owners[number % kLeafSize].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uintptr_t kLeafSize = 1 << 18;
  static constexpr std::uintptr_t kRootSize =
      (std::uintptr_t{1} << platform::kAddressBits) / kSmallestChunk / kLeafSize;

  struct Leaf {
    std::atomic<Reap*> owners[kLeafSize];
  };

  static std::uintptr_t Number(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) / kSmallestChunk;
  }

  Leaf* LeafOf(std::uintptr_t number) {
    if (number / kLeafSize >= kRootSize) return nullptr;
    std::atomic<Leaf*>& place = root_[number / kLeafSize];
    Leaf* leaf = place.load(std::memory_order_acquire);
    return leaf != nullptr ? leaf : MapLeaf(place);
  }

  __attribute__((noinline)) static Leaf* MapLeaf(std::atomic<Leaf*>& place) {
    auto* const fresh = static_cast<Leaf*>(MapAligned(sizeof(Leaf)));
    if (fresh == nullptr) return nullptr;
    Leaf* found = nullptr;
    if (place.compare_exchange_strong(found, fresh, std::memory_order_acq_rel)) return fresh;
    munmap(fresh, sizeof(Leaf));
    return found;
  }

  std::atomic<Leaf*> root_[kRootSize];
};

constinit inline OwnerMap owner_map;

inline void UnmapChunk(Chunk* chunk) {
  const KeepErrno keep;
  if (chunk->holds_reap) owner_map.Set(chunk, nullptr);
  munmap(chunk, chunk->bytes);
}

}  // namespace tare::reap
