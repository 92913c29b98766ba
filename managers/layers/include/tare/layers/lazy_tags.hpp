// Splits blocks, but joins free ones only when it looks for a block and meets them: to free is to
// put on a list.

#pragma once

#include <algorithm>
#include <bitset>

#include "tare/layers/quarter_bins.hpp"
#include "tare/layers/tagged_blocks.hpp"

namespace tare::layers {

template <MemorySource Source, std::size_t kChunk = 64 << 10>
class LazyTags : public TaggedBlocks<Source, kChunk> {
  using Blocks = TaggedBlocks<Source, kChunk>;
  using Block = typename Blocks::Block;

 public:
  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const std::size_t needed = RoundUp(std::max(bytes, Blocks::kLeastObject), kAlignment);
    const std::size_t own = QuarterBins::NumberOf(needed);
    Block* block = FromBin(needed, own);
    if (block == nullptr) block = FromLargerBin(own + 1);
    if (block == nullptr) block = FromSmallerBins(needed, own);
    if (block == nullptr) block = Blocks::More(needed);
    if (block == nullptr) return nullptr;
    PutRest(block, needed);
    return block + 1;
  }

  void Free(void* object) {
    Block* const block = Blocks::BlockOf(object);
    Blocks::MarkFree(block);
    bins_.PutFirst(Blocks::FreeOf(block));
    fresh_[QuarterBins::NumberOf(block->Bytes())] = true;
  }

  // Into free memory behind the object.
  bool Resize(void* object, std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return false;
    Block* const block = Blocks::BlockOf(object);
    const std::size_t needed = RoundUp(bytes, kAlignment);
    if (WithFreeAfter(block) < needed) return false;
    while (block->Bytes() < needed) {
      Block* const after = Blocks::After(block);
      bins_.Remove(Blocks::FreeOf(after));
      Blocks::Join(block, after);
    }
    PutRest(block, needed);
    return true;
  }

  void Clear() {
    bins_ = {};
    fresh_.reset();
    Blocks::GiveChunks();
  }

 private:
  void PutLast(Block* block) {
    Blocks::MarkFree(block);
    bins_.PutLast(Blocks::FreeOf(block));
  }

  void PutRest(Block* block, std::size_t needed) {
    if (Block* const rest = Blocks::CutRest(block, needed)) PutLast(rest);
  }

  Block* Remove(FreeBlock* free) {
    bins_.Remove(free);
    Block* const block = Blocks::BlockOf(free);
    block->word = block->Bytes();
    return block;
  }

  // What it would have if all free ones after it were joined to it.
  static std::size_t WithFreeAfter(Block* block) {
    Block* after = Blocks::After(block);
    while (after->IsFree()) after = Blocks::After(after);
    return static_cast<std::size_t>(reinterpret_cast<char*>(after) -
                                    reinterpret_cast<char*>(block + 1));
  }

  // The first that is large enough, or is after it was joined.
  Block* FromBin(std::size_t needed, std::size_t number) {
    FreeBlock* next = nullptr;
    for (FreeBlock* free = bins_.First(number); free != nullptr; free = next) {
      if (free->bytes >= needed) return Remove(free);
      next = free->next;
      Block* const joined = JoinNeighbours(Blocks::BlockOf(free), next);
      if (joined == nullptr) continue;
      if (joined->Bytes() >= needed) return joined;
      PutLast(joined);
    }
    return nullptr;
  }

  // The block with its free neighbours, in no list any more; nullptr if it has none. `next` moves
  // on when it is one of them.
  Block* JoinNeighbours(Block* block, FreeBlock*& next) {
    const auto is_free = [](Block* other) { return other != nullptr && other->IsFree(); };
    if (!is_free(block->before) && !is_free(Blocks::After(block))) return nullptr;
    const auto take = [&](Block* other) {
      FreeBlock* const free = Blocks::FreeOf(other);
      if (free == next) next = next->next;
      Remove(free);
    };
    take(block);
    for (Block* after = Blocks::After(block); is_free(after); after = Blocks::After(block)) {
      take(after);
      Blocks::Join(block, after);
    }
    for (Block* before = block->before; is_free(before); before = block->before) {
      take(before);
      Blocks::Join(before, block);
      block = before;
    }
    return block;
  }

  Block* FromLargerBin(std::size_t number) {
    const std::size_t filled = bins_.Filled(number);
    return filled == QuarterBins::kCount ? nullptr : Remove(bins_.Last(filled));
  }

  // Only where something was freed since the last look.
  Block* FromSmallerBins(std::size_t needed, std::size_t own) {
    for (std::size_t number = bins_.Filled(0); number < own; number = bins_.Filled(number + 1)) {
      if (!fresh_[number]) continue;
      if (Block* const block = FromBin(needed, number)) return block;
      fresh_[number] = false;
    }
    return nullptr;
  }

  QuarterBins bins_;
  std::bitset<QuarterBins::kCount> fresh_;
};

}  // namespace tare::layers
