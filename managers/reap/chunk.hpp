// Chunks: the pieces of memory that reaps are made of.

#pragma once

#include <sys/mman.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "system.hpp"
#include "tare/platform/memory.hpp"

namespace tare::reap {

inline constexpr std::size_t kPage = platform::kLeastPageBytes;
inline constexpr std::size_t kSmallestChunk = 64 << 10;  // also what every chunk is aligned to
inline constexpr std::size_t kLargestCached = 4 << 20;
inline constexpr std::size_t kUnit = 16;  // of blocks

struct Chunk {
  Chunk* next = nullptr;
  Chunk* previous = nullptr;
  std::size_t bytes = 0;
  union {
    char* used = nullptr;  // where the blocks end, once the reap bumps elsewhere
    std::size_t asked;     // of a large object: its bytes
  };
  char* touched = nullptr;  // memory above this has never been written to
  bool holds_reap = false;  // a reap begins behind this, dead if the chunk is in a cache

  char* Base() { return reinterpret_cast<char*>(this); }
  char* End() { return Base() + bytes; }
};

constexpr std::size_t RoundUp(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) & ~(to - 1);
}

inline char* AlignUp(char* address, std::size_t alignment) {
  return address + (-reinterpret_cast<std::uintptr_t>(address) & (alignment - 1));
}

// Fresh memory at a multiple of kSmallestChunk, or nullptr.
inline void* MapAligned(std::size_t bytes) {
  const KeepErrno keep;
  const auto map = [](std::size_t length) -> char* {
    void* const at =
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
  };
  char* at = map(bytes);
  if (at == nullptr || AlignUp(at, kSmallestChunk) == at) return at;
  munmap(at, bytes);
  at = map(bytes + kSmallestChunk);
  if (at == nullptr) return nullptr;
  char* const aligned = AlignUp(at, kSmallestChunk);
  if (aligned != at) munmap(at, static_cast<std::size_t>(aligned - at));
  munmap(aligned + bytes, static_cast<std::size_t>(at + kSmallestChunk - aligned));
  return aligned;
}

inline Chunk* MapChunk(std::size_t bytes) {
  auto* const chunk = static_cast<Chunk*>(MapAligned(bytes));
  if (chunk == nullptr) return nullptr;
  chunk->bytes = bytes;
  chunk->touched = chunk->Base() + kPage;
  return chunk;
}

}  // namespace tare::reap
