// 4.2BSD's way: blocks of a power of two, each with a word before its object that names its list.
// Blocks are cut from pages, and are never split or joined.

#pragma once

#include <array>
#include <bit>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <RisingSource Source, std::size_t kPage = 4096>
class PowerBlocks : private Source {
 public:
  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const auto power = static_cast<std::size_t>(std::bit_width(bytes + sizeof(Word) - 1));
    const std::size_t number = power < kLeastPower ? kLeastPower : power;
    if (lists_[number] == nullptr && !Fill(number)) return nullptr;
    Word* const block = lists_[number];
    lists_[number] = block->next;
    block->number = number;
    return block + 1;
  }

  void Free(void* object) {
    Word* const block = static_cast<Word*>(object) - 1;
    Word*& list = lists_[block->number];
    block->next = list;
    list = block;
  }

  std::size_t Size(void* object) {
    return (std::size_t{1} << (static_cast<Word*>(object) - 1)->number) - sizeof(Word);
  }

 private:
  // A block is in use or in a list.
  union Word {
    std::size_t number;
    Word* next;
  };

  static constexpr std::size_t kLeastPower = 5;

  // A page of blocks, or one that is larger. Objects are aligned to twice a word, so the blocks
  // begin at a word that is not.
  bool Fill(std::size_t number) {
    const std::size_t bytes = std::size_t{1} << number;
    const std::size_t all = bytes < kPage ? kPage : bytes;
    auto* const memory = static_cast<char*>(Source::Take(all + kAlignment));
    if (memory == nullptr) return false;
    for (std::size_t left = all; left != 0; left -= bytes) {
      auto* const block = reinterpret_cast<Word*>(memory + sizeof(Word) + left - bytes);
      block->next = lists_[number];
      lists_[number] = block;
    }
    return true;
  }

  std::array<Word*, 64> lists_ = {};
};

}  // namespace tare::layers
