// The chunks that destroyed reaps leave behind, for the next ones. Each thread has a few, which
// cost no lock, and all threads share the rest. Both are bounded. Of what all share, the part that
// nobody has needed for a second goes back to the system.

#pragma once

#include <pthread.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "owner_map.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::reap {

inline constexpr std::size_t kThreadLimit = 8 << 20;
inline constexpr std::size_t kDefaultSharedLimit = 64 << 20;
inline constexpr std::uint64_t kPurgeNanoseconds = 1'000'000'000;

// Chunks by size, each a power of two.
class Stock {
 public:
  std::size_t Bytes() const { return bytes_; }

  void Put(Chunk* chunk) {
    Chunk*& list = lists_[Order(chunk->bytes)];
    chunk->next = list;
    list = chunk;
    bytes_ += chunk->bytes;
  }

  // One of at least `bytes` and not much more, or nullptr.
  Chunk* Take(std::size_t bytes) {
    const std::size_t least = Order(bytes);
    const std::size_t most = std::min(least + kOrdersAbove, lists_.size() - 1);
    for (std::size_t order = least; order <= most; ++order)
      if (Chunk* const chunk = lists_[order]) return Remove(order, chunk);
    return nullptr;
  }

  Chunk* TakeSmallest() {
    Chunk* const chunk = lists_[0];
    return chunk == nullptr ? nullptr : Remove(0, chunk);
  }

  Chunk* TakeLargest() {
    for (std::size_t order = lists_.size(); order-- > 0;)
      if (Chunk* const chunk = lists_[order]) return Remove(order, chunk);
    return nullptr;
  }

 private:
  static constexpr std::size_t kOrdersAbove = 2;

  static constexpr std::size_t Order(std::size_t bytes) {
    return static_cast<std::size_t>(std::countr_zero(bytes) - std::countr_zero(kSmallestChunk));
  }

  Chunk* Remove(std::size_t order, Chunk* chunk) {
    lists_[order] = chunk->next;
    bytes_ -= kSmallestChunk << order;
    return chunk;
  }

  std::array<Chunk*, std::bit_width(kLargestCached / kSmallestChunk)> lists_ = {};
  std::size_t bytes_ = 0;
};

struct SharedStock {
  layers::SpinLock lock;
  Stock stock;
  std::size_t limit = kDefaultSharedLimit;
  std::size_t least = 0;  // bytes that were there at any time since `since`
  std::uint64_t since = 0;
};

struct ThreadStock {
  Stock stock;
  bool open = false;  // emptied when the thread ends
  bool ended = false;
};

constinit inline SharedStock shared_stock;
constinit inline thread_local ThreadStock thread_stock __attribute__((tls_model("initial-exec")));
inline pthread_key_t thread_key;

inline std::uint64_t CoarseNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Unmaps chunks until no more than `most` bytes are kept. Returns what it gave back.
__attribute__((noinline)) inline std::size_t Shrink(Stock& stock, std::size_t most) {
  std::size_t given = 0;
  while (stock.Bytes() > most) {
    Chunk* const chunk = stock.TakeLargest();
    given += chunk->bytes;
    UnmapChunk(chunk);
  }
  return given;
}

__attribute__((noinline)) inline void PutShared(Chunk* chunk) {
  SharedStock& shared = shared_stock;
  const std::scoped_lock guard(shared.lock);
  shared.stock.Put(chunk);
  const std::uint64_t now = CoarseNanoseconds();
  if (now - shared.since > kPurgeNanoseconds) {
    Shrink(shared.stock, shared.stock.Bytes() - std::min(shared.least, shared.stock.Bytes()));
    shared.least = shared.stock.Bytes();
    shared.since = now;
  }
  Shrink(shared.stock, shared.limit);
  shared.least = std::min(shared.least, shared.stock.Bytes());
}

inline Chunk* TakeShared(std::size_t bytes) {
  SharedStock& shared = shared_stock;
  const std::scoped_lock guard(shared.lock);
  Chunk* const chunk = shared.stock.Take(bytes);
  shared.least = std::min(shared.least, shared.stock.Bytes());
  return chunk;
}

inline void CloseThreadStock(void*) {
  thread_stock.open = false;
  thread_stock.ended = true;
  while (Chunk* const chunk = thread_stock.stock.TakeLargest()) PutShared(chunk);
}

__attribute__((noinline)) inline bool OpenThreadStock() {
  if (thread_stock.ended) return false;
  thread_stock.open = pthread_setspecific(thread_key, &thread_stock) == 0;
  return thread_stock.open;
}

inline void PutChunk(Chunk* chunk) {
  if (chunk->bytes > kLargestCached) [[unlikely]]
    return UnmapChunk(chunk);
  if (thread_stock.stock.Bytes() + chunk->bytes > kThreadLimit ||
      (!thread_stock.open && !OpenThreadStock())) [[unlikely]]
    return PutShared(chunk);
  thread_stock.stock.Put(chunk);
}

inline std::size_t Trim() {
  const std::scoped_lock guard(shared_stock.lock);
  return Shrink(thread_stock.stock, 0) + Shrink(shared_stock.stock, 0);
}

// A chunk of at least `bytes`, or nullptr when memory is short.
__attribute__((noinline)) inline Chunk* TakeChunk(std::size_t bytes) {
  if (bytes <= kLargestCached) {
    bytes = std::bit_ceil(std::max(bytes, kSmallestChunk));
    if (Chunk* const chunk = thread_stock.stock.Take(bytes)) return chunk;
    if (Chunk* const chunk = TakeShared(bytes)) return chunk;
  } else {
    bytes = RoundUp(bytes, kSmallestChunk);
  }
  Chunk* chunk = MapChunk(bytes);
  if (chunk == nullptr && Trim() != 0) chunk = MapChunk(bytes);
  return chunk;
}

inline Chunk* TakeSmallestChunk() {
  Chunk* const chunk = thread_stock.stock.TakeSmallest();
  return chunk != nullptr ? chunk : TakeChunk(kSmallestChunk);
}

// Before the first chunk.
inline void PrepareChunkCache() {
  pthread_key_create(&thread_key, CloseThreadStock);
  pthread_atfork([] { shared_stock.lock.lock(); }, [] { shared_stock.lock.unlock(); },
                 [] { shared_stock.lock.unlock(); });
}

}  // namespace tare::reap
