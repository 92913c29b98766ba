// Blocks that tell their size and that of the one before them, by which neighbours are found. They
// lie in chunks; a chunk grows when its source rises.

#pragma once

#include <new>
#include <utility>

#include "tare/layers/fits.hpp"

namespace tare::layers {

template <MemorySource Source, std::size_t kChunk>
class TaggedBlocks : private Source {
 public:
  TaggedBlocks() = default;
  TaggedBlocks(const TaggedBlocks&) = delete;
  TaggedBlocks& operator=(const TaggedBlocks&) = delete;
  ~TaggedBlocks() { GiveChunks(); }

  static constexpr std::size_t kLeastObject = RoundUp(sizeof(FreeBlock), kAlignment);

  std::size_t Size(void* object) { return BlockOf(object)->Bytes(); }

 protected:
  // The object follows. The last of a chunk has no bytes, and is never free.
  struct alignas(kAlignment) Block {
    Block* before;
    std::size_t word;  // the bytes, a multiple of kAlignment, and whether it is free

    std::size_t Bytes() const { return word & ~std::size_t{1}; }
    bool IsFree() const { return word & 1; }
  };

  static Block* BlockOf(void* object) { return static_cast<Block*>(object) - 1; }
  static FreeBlock* FreeOf(Block* block) { return reinterpret_cast<FreeBlock*>(block + 1); }
  static Block* After(Block* block) {
    return reinterpret_cast<Block*>(reinterpret_cast<char*>(block + 1) + block->Bytes());
  }

  static void MarkFree(Block* block) {
    FreeOf(block)->bytes = block->Bytes();
    block->word |= 1;
  }

  // Both become one that is not free.
  static void Join(Block* block, Block* after) {
    block->word = block->Bytes() + sizeof(Block) + after->Bytes();
    After(block)->before = block;
  }

  // What `block` has beyond `needed`, as a block; nullptr if that is too little for one.
  static Block* CutRest(Block* block, std::size_t needed) {
    if (block->Bytes() < needed + sizeof(Block) + kLeastObject) return nullptr;
    auto* const rest = reinterpret_cast<Block*>(reinterpret_cast<char*>(block + 1) + needed);
    *rest = {block, block->Bytes() - needed - sizeof(Block)};
    After(rest)->before = rest;
    block->word = needed;
    return rest;
  }

  // A new block that is not free. The one before it may be.
  Block* More(std::size_t needed) {
    constexpr std::size_t kFrame = sizeof(Chunk) + 2 * sizeof(Block);
    const std::size_t bytes = RoundUp(needed + kFrame, kChunk);
    char* const memory = static_cast<char*>(Source::Take(bytes));
    if (memory == nullptr) return nullptr;
    if (chunks_ != nullptr && memory == EndOf(chunks_)) {
      Block* const last = reinterpret_cast<Block*>(memory) - 1;
      chunks_->bytes += bytes;
      return Place(last, last->before, bytes - sizeof(Block));
    }
    chunks_ = new (memory) Chunk{chunks_, bytes};
    return Place(reinterpret_cast<Block*>(chunks_ + 1), nullptr, bytes - kFrame);
  }

  void GiveChunks() {
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

  static char* EndOf(Chunk* chunk) { return reinterpret_cast<char*>(chunk) + chunk->bytes; }

  static Block* Place(Block* block, Block* before, std::size_t bytes) {
    *block = {before, bytes};
    *After(block) = {block, 0};
    return block;
  }

  Chunk* chunks_ = nullptr;
};

}  // namespace tare::layers
