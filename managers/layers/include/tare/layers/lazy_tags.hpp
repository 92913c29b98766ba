// Splits blocks, but joins free ones only when it looks for a block and meets them. To free is to
// put on a list, from which the next allocations take what fits exactly; the rest goes into bins.

#pragma once

#include <algorithm>
#include <utility>

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
    if (Block* const block = FromReturned(needed)) return block + 1;
    Block* block = FromBin(needed, own);
    if (block == nullptr) block = FromLargerBin(own + 1);
    if (block == nullptr) block = FromSmallerBins(needed, own);
    if (block == nullptr) block = Blocks::More(needed);
    if (block == nullptr) return nullptr;
    PutRest(block, needed);
    return block + 1;
  }

  void Free(void* object) {
    auto* const block = static_cast<FreeBlock*>(object);
    block->next = returned_;
    returned_ = block;
  }

  // Into free memory behind the object.
  bool Resize(void* object, std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return false;
    Block* const block = Blocks::BlockOf(object);
    const std::size_t needed = RoundUp(bytes, kAlignment);
    FromReturned(kNothingFits);
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
    returned_ = nullptr;
    bins_ = {};
    Blocks::GiveChunks();
  }

 private:
  static constexpr std::size_t kNothingFits = SIZE_MAX / 2;

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

  // Of what was freed, a block that fits exactly. Those met before it are put into their bins.
  Block* FromReturned(std::size_t needed) {
    while (returned_ != nullptr) {
      FreeBlock* const free = std::exchange(returned_, returned_->next);
      Block* const block = Blocks::BlockOf(free);
      if (block->Bytes() - needed < sizeof(Block) + Blocks::kLeastObject) return block;
      Blocks::MarkFree(block);
      bins_.PutFirst(free);
    }
    return nullptr;
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
      if (!bins_.IsFresh(number)) continue;
      if (Block* const block = FromBin(needed, number)) return block;
      bins_.SetStale(number);
    }
    return nullptr;
  }

  FreeBlock* returned_ = nullptr;  // not yet in bins, nor marked free
  QuarterBins bins_;
};

}  // namespace tare::layers
