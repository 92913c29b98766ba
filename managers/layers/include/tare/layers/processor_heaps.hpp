// Hoard's way: a heap for each processor, and a global one. A thread allocates in the heap that its
// number leads to; an object is freed into the heap that holds its superblock. A heap of which too
// much is free gives superblocks to the global heap, so that what one thread frees can serve any.

#pragma once

#include <array>
#include <mutex>
#include <new>
#include <utility>

#include "tare/layers/spin_lock.hpp"
#include "tare/layers/superblock_lists.hpp"

namespace tare::layers {

// A heap may hold kSlack superblocks more than it uses, and have 1/kEmptyShare of its memory free.
// The source is asked by several threads at once.
template <MemorySource Source, ClassesOfSizes Classes, Lockable Lock, std::size_t kHeaps = 16,
          std::size_t kBytes = 8 << 10, std::size_t kSlack = 4, std::size_t kEmptyShare = 4>
class ProcessorHeaps : private Source {
  using Block = Superblock<kBytes>;
  static constexpr std::size_t kLargest = Classes::BytesOf(Classes::kCount - 1);
  static_assert(2 * kLargest + sizeof(Block) <= kBytes, "a superblock must hold two objects");

 public:
  ProcessorHeaps() = default;
  ProcessorHeaps(const ProcessorHeaps&) = delete;
  ProcessorHeaps& operator=(const ProcessorHeaps&) = delete;
  ~ProcessorHeaps() {
    while (chunks_ != nullptr) {
      Chunk* const chunk = std::exchange(chunks_, chunks_->next);
      Source::Give(chunk, kChunk);
    }
  }

  void* Allocate(std::size_t bytes) {
    if (bytes > kLargest) return AllocateLarge(bytes);
    const std::size_t number = Classes::ClassOf(bytes);
    Own& own = heaps_[NumberOfThread() % kHeaps];
    const std::scoped_lock guard(own.lock);
    if (void* const object = own.lists.Allocate(number)) return object;
    return Refill(own, number) ? own.lists.Allocate(number) : nullptr;
  }

  void Free(void* object) {
    Block* const block = Block::Of(object);
    if (block->IsLarge()) return FreeLarge(block);
    Own& own = LockOwner(block);
    const std::scoped_lock guard(std::adopt_lock, own.lock);
    own.lists.Free(block, object);
    if (&own != &global_ && IsTooEmpty(own)) GiveToGlobal(own);
  }

  std::size_t Size(void* object) { return Block::Of(object)->ObjectBytes(); }

  void BeforeFork() {
    for (Own& own : heaps_) own.lock.lock();
    global_.lock.lock();
  }
  void AfterFork() {
    global_.lock.unlock();
    for (Own& own : heaps_) own.lock.unlock();
  }

 private:
  struct alignas(64) Own {
    SuperblockLists<Classes, kBytes> lists;
    Lock lock;
  };
  struct Chunk {
    Chunk* next;
  };
  static constexpr std::size_t kChunk = 128 * kBytes;

  static std::size_t NumberOfThread() {
    static thread_local std::size_t number = 0;
    static std::atomic<std::size_t> threads = 0;
    if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
    return number;
  }

  // A superblock may change hands until its owner is locked.
  Own& LockOwner(Block* block) {
    for (;;) {
      auto* const own = static_cast<Own*>(block->owner.load(std::memory_order_acquire));
      own->lock.lock();
      if (block->owner.load(std::memory_order_relaxed) == own) return *own;
      own->lock.unlock();
    }
  }

  static void Insert(Own& own, Block* block) {
    own.lists.Insert(block);
    block->owner.store(&own, std::memory_order_release);
  }

  static bool IsTooEmpty(const Own& own) {
    const std::size_t used = own.lists.UsedBytes();
    const std::size_t held = own.lists.HeldBytes();
    return used + kSlack * kBytes < held && used * kEmptyShare < held * (kEmptyShare - 1);
  }

  void GiveToGlobal(Own& own) {
    Block* const block = own.lists.Emptiest();
    const std::scoped_lock guard(global_.lock);
    own.lists.Remove(block);
    Insert(global_, block);
  }

  // With one of the class, or an empty one of any class, or a new one. It has its owner before
  // another thread can lock the old one.
  bool Refill(Own& own, std::size_t number) {
    const std::scoped_lock guard(global_.lock);
    Block* block = global_.lists.Fullest(number);
    if (block == nullptr) block = global_.lists.Empty();
    if (block != nullptr) {
      global_.lists.Remove(block);
      if (block->Used() == 0) block->Reset(Classes::BytesOf(number));
    } else if ((block = New(number)) == nullptr) {
      return false;
    }
    Insert(own, block);
    return true;
  }

  Block* New(std::size_t number) {
    if (fresh_ == fresh_end_) {
      auto* const memory = static_cast<char*>(Source::Take(kChunk));
      if (memory == nullptr) return nullptr;
      chunks_ = new (memory) Chunk{chunks_};
      fresh_ = Block::Above(chunks_ + 1);
      fresh_end_ = fresh_ + (static_cast<std::size_t>(memory + kChunk - fresh_) / kBytes) * kBytes;
    }
    return new (std::exchange(fresh_, fresh_ + kBytes)) Block(Classes::BytesOf(number));
  }

  void* AllocateLarge(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const std::size_t needed = RoundUp(bytes, kAlignment);
    const std::size_t all = needed + sizeof(Block) + kBytes;
    void* const memory = Source::Take(all);
    if (memory == nullptr) return nullptr;
    return (new (Block::Above(memory)) Block(memory, all, needed))->First();
  }

  void FreeLarge(Block* block) { Source::Give(block->Memory(), block->MemoryBytes()); }

  std::array<Own, kHeaps> heaps_ = {};
  Own global_ = {};
  Chunk* chunks_ = nullptr;
  char* fresh_ = nullptr;
  char* fresh_end_ = nullptr;
};

}  // namespace tare::layers
