// Bumps a pointer through chunks that double. Objects go all at once.

#pragma once

#include <algorithm>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <MemorySource Source, std::size_t kFirstChunk = 64 << 10,
          std::size_t kLargestChunk = 4 << 20>
class Region : private Source {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() { Clear(); }

  void* Allocate(std::size_t bytes) {
    const std::size_t needed = RoundUp(bytes, kAlignment);
    if (needed < bytes) return nullptr;
    if (needed > static_cast<std::size_t>(limit_ - position_) && !AddChunk(needed)) return nullptr;
    char* const object = position_;
    position_ += needed;
    return object;
  }

  void Clear() {
    while (chunks_ != nullptr) {
      Chunk* const chunk = chunks_;
      chunks_ = chunk->next;
      Source::Give(chunk, chunk->bytes);
    }
    position_ = nullptr;
    limit_ = nullptr;
  }

 private:
  struct alignas(kAlignment) Chunk {
    Chunk* next;
    std::size_t bytes;
  };

  bool AddChunk(std::size_t needed) {
    if (needed > SIZE_MAX / 2) return false;
    const std::size_t usual =
        chunks_ == nullptr ? kFirstChunk : std::min(2 * chunks_->bytes, kLargestChunk);
    const std::size_t bytes = std::max(usual, RoundUp(needed + sizeof(Chunk), kFirstChunk));
    auto* const chunk = static_cast<Chunk*>(Source::Take(bytes));
    if (chunk == nullptr) return false;
    *chunk = {chunks_, bytes};
    chunks_ = chunk;
    position_ = reinterpret_cast<char*>(chunk + 1);
    limit_ = reinterpret_cast<char*>(chunk) + bytes;
    return true;
  }

  char* position_ = nullptr;
  char* limit_ = nullptr;
  Chunk* chunks_ = nullptr;
};

}  // namespace tare::layers
