// Splits blocks, and joins a freed one with free neighbours at once: each block tells its size and
// that of the one before it.

#pragma once

#include <algorithm>
#include <utility>

#include "tare/layers/fits.hpp"

namespace tare::layers {

template <MemorySource Source, Fit Finder, std::size_t kChunk = 256 << 10>
class BoundaryTags : private Source {
 public:
  BoundaryTags() = default;
  BoundaryTags(const BoundaryTags&) = delete;
  BoundaryTags& operator=(const BoundaryTags&) = delete;
  ~BoundaryTags() { Clear(); }

  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 2) return nullptr;
    const std::size_t needed = RoundUp(std::max(bytes, kLeast), kAlignment);
    FreeBlock* const found = finder_.Take(needed);
    Block* const block = found != nullptr ? BlockOf(found) : NewChunk(needed);
    if (block == nullptr) return nullptr;
    block->word = block->Bytes();
    Split(block, needed);
    return block + 1;
  }

  void Free(void* object) {
    Block* block = BlockOf(object);
    if (Block* const after = After(block); after->IsFree()) {
      finder_.Remove(FreeOf(after));
      Join(block, after);
    }
    if (Block* const before = block->before; before != nullptr && before->IsFree()) {
      finder_.Remove(FreeOf(before));
      Join(before, block);
      block = before;
    }
    PutFree(block);
  }

  std::size_t Size(void* object) { return BlockOf(object)->Bytes(); }

  void Clear() {
    finder_ = Finder();
    while (chunks_ != nullptr) {
      Chunk* const chunk = std::exchange(chunks_, chunks_->next);
      Source::Give(chunk, chunk->bytes);
    }
  }

 private:
  struct alignas(kAlignment) Chunk {
    Chunk* next;
    std::size_t bytes;
  };
  // The object follows. The last of a chunk has no bytes, and is never free.
  struct alignas(kAlignment) Block {
    Block* before;
    std::size_t word;  // the bytes, a multiple of kAlignment, and whether it is free

    std::size_t Bytes() const { return word & ~std::size_t{1}; }
    bool IsFree() const { return word & 1; }
  };

  static constexpr std::size_t kLeast = RoundUp(sizeof(FreeBlock), kAlignment);

  static Block* BlockOf(void* object) { return static_cast<Block*>(object) - 1; }
  static FreeBlock* FreeOf(Block* block) { return reinterpret_cast<FreeBlock*>(block + 1); }
  static Block* After(Block* block) {
    return reinterpret_cast<Block*>(reinterpret_cast<char*>(block + 1) + block->Bytes());
  }

  void PutFree(Block* block) {
    FreeOf(block)->bytes = block->Bytes();
    block->word = block->Bytes() | 1;
    finder_.Put(FreeOf(block));
  }

  static void Join(Block* block, Block* after) {
    block->word = block->Bytes() + sizeof(Block) + after->Bytes();
    After(block)->before = block;
  }

  void Split(Block* block, std::size_t needed) {
    if (block->Bytes() < needed + sizeof(Block) + kLeast) return;
    Block* const rest = reinterpret_cast<Block*>(reinterpret_cast<char*>(block + 1) + needed);
    rest->before = block;
    rest->word = block->Bytes() - needed - sizeof(Block);
    After(rest)->before = rest;
    block->word = needed;
    PutFree(rest);
  }

  Block* NewChunk(std::size_t needed) {
    constexpr std::size_t kFrame = sizeof(Chunk) + 2 * sizeof(Block);
    const std::size_t bytes = RoundUp(needed + kFrame, kChunk);
    auto* const chunk = static_cast<Chunk*>(Source::Take(bytes));
    if (chunk == nullptr) return nullptr;
    *chunk = {chunks_, bytes};
    chunks_ = chunk;
    auto* const block = reinterpret_cast<Block*>(chunk + 1);
    *block = {nullptr, bytes - kFrame};
    *After(block) = {block, 0};
    return block;
  }

  Finder finder_;
  Chunk* chunks_ = nullptr;
};

}  // namespace tare::layers
