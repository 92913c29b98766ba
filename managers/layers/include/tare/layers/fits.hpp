// How BoundaryTags finds a free block: lists by powers of two, of which the first block that is
// large enough is taken, or the best of the first list that has one.

#pragma once

#include <array>
#include <bit>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

struct FreeBlock {
  std::size_t bytes;
  FreeBlock* next;
  FreeBlock* previous;
};

// Holds free blocks, each with `bytes` set.
template <typename T>
concept Fit = requires(T fit, FreeBlock* block, std::size_t bytes) {
  fit.Put(block);
  fit.Remove(block);
  { fit.Take(bytes) } -> std::same_as<FreeBlock*>;  // at least `bytes`, or nullptr
};

template <bool kBest>
class BinnedFit {
 public:
  void Put(FreeBlock* block) {
    FreeBlock*& list = ListOf(block->bytes);
    block->previous = nullptr;
    block->next = list;
    if (list != nullptr) list->previous = block;
    list = block;
  }

  void Remove(FreeBlock* block) {
    (block->previous != nullptr ? block->previous->next : ListOf(block->bytes)) = block->next;
    if (block->next != nullptr) block->next->previous = block->previous;
  }

  FreeBlock* Take(std::size_t bytes) {
    for (auto power = static_cast<std::size_t>(std::bit_width(bytes)); power < lists_.size();
         ++power) {
      FreeBlock* const block = Choose(lists_[power], bytes);
      if (block == nullptr) continue;
      Remove(block);
      return block;
    }
    return nullptr;
  }

 private:
  FreeBlock*& ListOf(std::size_t bytes) {
    return lists_[static_cast<std::size_t>(std::bit_width(bytes))];
  }

  static FreeBlock* Choose(FreeBlock* list, std::size_t bytes) {
    FreeBlock* chosen = nullptr;
    for (FreeBlock* block = list; block != nullptr; block = block->next) {
      if (block->bytes < bytes || (chosen != nullptr && chosen->bytes <= block->bytes)) continue;
      chosen = block;
      if (!kBest || block->bytes == bytes) break;
    }
    return chosen;
  }

  std::array<FreeBlock*, 65> lists_ = {};
};

using FirstFit = BinnedFit<false>;
using BestFit = BinnedFit<true>;

static_assert(Fit<FirstFit> && Fit<BestFit>);

}  // namespace tare::layers
