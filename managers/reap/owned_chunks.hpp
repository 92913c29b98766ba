// What a reap of either kind has besides its blocks: chunks, and its place among other reaps.

#pragma once

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <new>

#include "chunk_cache.hpp"
#include "tare/layers/spin_lock.hpp"

#ifndef REAP_NO_INLINE
#define REAP_NO_INLINE
#endif
#include "tare/reap.h"

namespace tare::reap {

inline constexpr std::size_t kLargestBlock = 32 << 10;  // what is larger gets a chunk of its own
inline constexpr std::size_t kLargestRequest = std::size_t{1} << 46;

struct OwnedChunks {
  Chunk* chunks = nullptr;  // newest first; the reap lies in the last one
  Chunk* large = nullptr;   // of one object each

  __attribute__((noinline)) static bool Own(Chunk* chunk, Reap* owner) {
    chunk->holds_reap = false;
    if (owner_map.Set(chunk, owner)) return true;
    PutChunk(chunk);
    return false;
  }

  static void FreeChunk(Chunk* chunk) {
    owner_map.Set(chunk, nullptr);
    PutChunk(chunk);
  }

  void AddChunk(Chunk* chunk) {
    chunk->next = chunks;
    chunks = chunk;
  }

  void FreeAllButFirst() {
    if (large != nullptr || chunks->next != nullptr) FreeRest();
  }

  // A chunk for an object that lies at least `start` bytes behind its beginning; nullptr when
  // memory is short.
  Chunk* AddLarge(std::size_t size, std::size_t alignment, std::size_t start, Reap* owner) {
    if (size > kLargestRequest || alignment > kLargestRequest) return nullptr;
    // Above what chunks are aligned to, there must be room to move up.
    const std::size_t spare = alignment > kSmallestChunk ? alignment : 0;
    Chunk* const chunk = TakeChunk(std::max(start, alignment) + spare + std::max(size, kUnit));
    if (chunk == nullptr || !Own(chunk, owner)) return nullptr;
    chunk->previous = nullptr;
    chunk->next = large;
    if (large != nullptr) large->previous = chunk;
    large = chunk;
    return chunk;
  }

  void FreeLarge(Chunk* chunk) {
    (chunk->previous != nullptr ? chunk->previous->next : large) = chunk->next;
    if (chunk->next != nullptr) chunk->next->previous = chunk->previous;
    FreeChunk(chunk);
  }

  void AddTo(reap_statistics& statistics) const {
    for (const Chunk* list : {chunks, large})
      for (const Chunk* chunk = list; chunk != nullptr; chunk = chunk->next) {
        ++statistics.chunks;
        statistics.reserved += chunk->bytes;
      }
  }

 private:
  __attribute__((noinline)) void FreeRest() {
    while (large != nullptr) FreeLarge(large);
    while (chunks->next != nullptr) {
      Chunk* const chunk = chunks;
      chunks = chunk->next;
      FreeChunk(chunk);
    }
  }
};

struct Relatives {
  Reap* parent = nullptr;
  Reap* first_child = nullptr;
  Reap* next_sibling = nullptr;
  Reap* previous_sibling = nullptr;

  Reap* root = nullptr;  // of a lane, the shared reap that it serves; else this; nullptr when dead
  std::atomic<Reap*>* lanes = nullptr;  // of a shared reap
  layers::SpinLock lock;
};

// A new Reap, `Reap::kStart` bytes behind the beginning of its first chunk; nullptr when memory is
// short.
template <typename Reap>
__attribute__((always_inline)) inline Reap* CreateReap(unsigned options) {
  Chunk* const chunk = TakeSmallestChunk();
  if (chunk == nullptr) return nullptr;
  auto* const reap = new (chunk->Base() + Reap::kStart) Reap;
  if (!chunk->holds_reap) {
    if (!reap->Own(chunk, reap)) return nullptr;
    chunk->holds_reap = true;
  }
  chunk->next = nullptr;
  reap->chunks = chunk;
  reap->options = options;
  reap->root = reap;
  return reap;
}

}  // namespace tare::reap
