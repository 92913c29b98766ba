// A plain region: it bumps a pointer through chunks that double, from the cache that reaps have.

#pragma once

#include <algorithm>
#include <cstddef>

#include "chunk_cache.hpp"

namespace tare::regions {

class BumpRegion {
 public:
  // nullptr when the chunk is full.
  void* TryBump(std::size_t bytes) {
    if (bytes > PTRDIFF_MAX) return nullptr;
    const std::size_t needed = reap::RoundUp(bytes, kAlignment);
    if (needed > static_cast<std::size_t>(limit_ - position_)) return nullptr;
    char* const object = position_;
    position_ += needed;
    return object;
  }

  // nullptr when memory is short.
  void* Allocate(std::size_t bytes) {
    if (void* const object = TryBump(bytes)) return object;
    return bytes <= PTRDIFF_MAX && AddChunk(reap::RoundUp(bytes, kAlignment)) ? TryBump(bytes)
                                                                              : nullptr;
  }

  // The first chunk stays.
  void Clear() {
    if (chunks_ == nullptr) return;
    while (chunks_->next != nullptr) DropChunk();
    Enter();
  }

  void Destroy() {
    while (chunks_ != nullptr) DropChunk();
    position_ = limit_ = nullptr;
  }

 private:
  static constexpr std::size_t kAlignment = 16;
  static constexpr std::size_t kHead = reap::RoundUp(sizeof(reap::Chunk), kAlignment);

  __attribute__((noinline)) bool AddChunk(std::size_t needed) {
    const std::size_t usual = chunks_ == nullptr
                                  ? reap::kSmallestChunk
                                  : std::min(2 * chunks_->bytes, reap::kLargestCached);
    reap::Chunk* const chunk = reap::TakeChunk(std::max(usual, needed + kHead));
    if (chunk == nullptr) return false;
    chunk->next = chunks_;
    chunks_ = chunk;
    Enter();
    return true;
  }

  void DropChunk() {
    reap::Chunk* const chunk = chunks_;
    chunks_ = chunk->next;
    chunk->touched = chunk->End();
    reap::PutChunk(chunk);
  }

  void Enter() {
    position_ = chunks_->Base() + kHead;
    limit_ = chunks_->End();
  }

  char* position_ = nullptr;
  char* limit_ = nullptr;
  reap::Chunk* chunks_ = nullptr;
};

}  // namespace tare::regions
