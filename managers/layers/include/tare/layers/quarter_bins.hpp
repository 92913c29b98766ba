// Lists of free blocks, four for each power of two, and which of them hold any.

#pragma once

#include <array>
#include <bit>

#include "tare/layers/fits.hpp"

namespace tare::layers {

class QuarterBins {
 public:
  static constexpr std::size_t kCount = 4 * 64;

  // For blocks of 16 bytes and more.
  static std::size_t NumberOf(std::size_t bytes) {
    const auto power = static_cast<std::size_t>(63 - std::countl_zero(bytes));
    return 4 * power + (bytes >> (power - 2) & 3);
  }

  // Whether one was put first since SetStale.
  bool IsFresh(std::size_t number) const { return bins_[number].fresh; }
  void SetStale(std::size_t number) { bins_[number].fresh = false; }

  FreeBlock* First(std::size_t number) const { return bins_[number].first; }
  FreeBlock* Last(std::size_t number) const { return bins_[number].last; }

  void PutFirst(FreeBlock* block) {
    const std::size_t number = NumberOf(block->bytes);
    Bin& bin = bins_[number];
    bin.fresh = true;
    block->previous = nullptr;
    block->next = bin.first;
    if (bin.first == nullptr)
      PutOnly(block, number);
    else
      bin.first = bin.first->previous = block;
  }

  void PutLast(FreeBlock* block) {
    const std::size_t number = NumberOf(block->bytes);
    Bin& bin = bins_[number];
    block->next = nullptr;
    block->previous = bin.last;
    if (bin.last == nullptr)
      PutOnly(block, number);
    else
      bin.last = bin.last->next = block;
  }

  void Remove(FreeBlock* block) {
    const std::size_t number = NumberOf(block->bytes);
    Bin& bin = bins_[number];
    (block->previous != nullptr ? block->previous->next : bin.first) = block->next;
    (block->next != nullptr ? block->next->previous : bin.last) = block->previous;
    if (bin.first == nullptr) filled_[number / 64] &= ~(std::uint64_t{1} << number % 64);
  }

  // The number of the first bin from `number` on that holds blocks; kCount if none does.
  std::size_t Filled(std::size_t number) const {
    std::uint64_t wanted = ~std::uint64_t{0} << number % 64;
    for (std::size_t word = number / 64; word < filled_.size(); ++word) {
      if (const std::uint64_t found = filled_[word] & wanted; found != 0)
        return 64 * word + static_cast<std::size_t>(std::countr_zero(found));
      wanted = ~std::uint64_t{0};
    }
    return kCount;
  }

 private:
  struct Bin {
    FreeBlock* first = nullptr;
    FreeBlock* last = nullptr;
    bool fresh = false;
  };

  void PutOnly(FreeBlock* block, std::size_t number) {
    filled_[number / 64] |= std::uint64_t{1} << number % 64;
    bins_[number].first = bins_[number].last = block;
  }

  std::array<Bin, kCount> bins_ = {};
  std::array<std::uint64_t, kCount / 64> filled_ = {};
};

}  // namespace tare::layers
