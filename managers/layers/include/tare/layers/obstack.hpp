// A stack of objects: freeing one frees all that came after it.

#pragma once

#include <algorithm>
#include <functional>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <MemorySource Source, std::size_t kChunk = 64 << 10>
class Obstack : private Source {
 public:
  Obstack() = default;
  Obstack(const Obstack&) = delete;
  Obstack& operator=(const Obstack&) = delete;
  ~Obstack() { Clear(); }

  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const std::size_t needed = RoundUp(std::max<std::size_t>(bytes, 1), kAlignment);
    if (needed > static_cast<std::size_t>(limit_ - position_) && !AddChunk(needed)) return nullptr;
    char* const object = position_;
    position_ += needed;
    return object;
  }

  // `object` and all newer ones.
  void Free(void* object) {
    while (!Holds(chunks_, object)) DropChunk();
    position_ = static_cast<char*>(object);
    limit_ = EndOf(chunks_);
  }

  void Clear() {
    while (chunks_ != nullptr) DropChunk();
    position_ = nullptr;
    limit_ = nullptr;
  }

 private:
  struct alignas(kAlignment) Chunk {
    Chunk* before;
    std::size_t bytes;
  };

  static char* EndOf(Chunk* chunk) { return reinterpret_cast<char*>(chunk) + chunk->bytes; }
  static bool Holds(Chunk* chunk, void* object) {
    return std::less_equal<void*>()(chunk + 1, object) && std::less<void*>()(object, EndOf(chunk));
  }

  void DropChunk() {
    Chunk* const chunk = chunks_;
    chunks_ = chunk->before;
    Source::Give(chunk, chunk->bytes);
  }

  bool AddChunk(std::size_t needed) {
    const std::size_t bytes = RoundUp(needed + sizeof(Chunk), kChunk);
    auto* const chunk = static_cast<Chunk*>(Source::Take(bytes));
    if (chunk == nullptr) return false;
    *chunk = {chunks_, bytes};
    chunks_ = chunk;
    position_ = reinterpret_cast<char*>(chunk + 1);
    limit_ = EndOf(chunk);
    return true;
  }

  char* position_ = nullptr;
  char* limit_ = nullptr;
  Chunk* chunks_ = nullptr;
};

}  // namespace tare::layers
