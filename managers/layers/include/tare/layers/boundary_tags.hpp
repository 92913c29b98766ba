// Splits blocks, and joins a freed one with free neighbours at once.

#pragma once

#include <algorithm>

#include "tare/layers/tagged_blocks.hpp"

namespace tare::layers {

template <MemorySource Source, Fit Finder, std::size_t kChunk = 256 << 10>
class BoundaryTags : public TaggedBlocks<Source, kChunk> {
  using Blocks = TaggedBlocks<Source, kChunk>;
  using Block = typename Blocks::Block;

 public:
  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const std::size_t needed = RoundUp(std::max(bytes, Blocks::kLeastObject), kAlignment);
    FreeBlock* const found = finder_.Take(needed);
    Block* block = found != nullptr ? Blocks::BlockOf(found) : Blocks::More(needed);
    if (block == nullptr) return nullptr;
    block->word = block->Bytes();
    if (found == nullptr) block = JoinBefore(block);
    Split(block, needed);
    return block + 1;
  }

  void Free(void* object) {
    Block* const block = Blocks::BlockOf(object);
    JoinAfter(block);
    PutFree(JoinBefore(block));
  }

  // Into free memory behind the object.
  bool Resize(void* object, std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return false;
    Block* const block = Blocks::BlockOf(object);
    const std::size_t needed = RoundUp(bytes, kAlignment);
    if (Block* const after = Blocks::After(block); block->Bytes() < needed) {
      if (!after->IsFree() || block->Bytes() + sizeof(Block) + after->Bytes() < needed)
        return false;
      JoinAfter(block);
      Split(block, needed);
    }
    return true;
  }

  void Clear() {
    finder_ = Finder();
    Blocks::GiveChunks();
  }

 private:
  void JoinAfter(Block* block) {
    Block* const after = Blocks::After(block);
    if (!after->IsFree()) return;
    finder_.Remove(Blocks::FreeOf(after));
    Blocks::Join(block, after);
  }

  Block* JoinBefore(Block* block) {
    Block* const before = block->before;
    if (before == nullptr || !before->IsFree()) return block;
    finder_.Remove(Blocks::FreeOf(before));
    Blocks::Join(before, block);
    return before;
  }

  void PutFree(Block* block) {
    Blocks::MarkFree(block);
    finder_.Put(Blocks::FreeOf(block));
  }

  void Split(Block* block, std::size_t needed) {
    if (Block* const rest = Blocks::CutRest(block, needed)) PutFree(rest);
  }

  Finder finder_;
};

}  // namespace tare::layers
