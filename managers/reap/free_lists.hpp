// Blocks that were freed one by one: a list for each size up to 1 KiB, and above that four lists
// for each doubling.
//
// A block is a word, which the object's size is kept in, and the object behind it. It is known by
// the address of the object; its size counts the word, and is a multiple of 16.

#pragma once

#include <algorithm>
#include <iterator>

#include "chunk.hpp"

namespace tare::reap {

using Word = std::uint32_t;

inline constexpr std::size_t kWord = sizeof(Word);
inline constexpr Word kFree = Word{1} << 31;   // the block is free
inline constexpr Word kLarge = Word{1} << 30;  // the object has a chunk of its own

inline Word& WordOf(void* object) { return static_cast<Word*>(object)[-1]; }

constexpr std::size_t BlockFor(std::size_t size) {
  return (size + kWord + kUnit - 1) & ~(kUnit - 1);
}

constexpr Word FreeWord(std::size_t block) { return kFree | static_cast<Word>(block - kWord); }

class FreeLists {  // cleared before use: a reap that frees nothing has no need of them
 public:
  static constexpr std::size_t kLargestExact = 1024;

  // Marks the block as free.
  void Put(char* object, std::size_t block) {
    WordOf(object) = FreeWord(block);
    const std::size_t bin = BinHolding(block);
    if (bin >= kExactBins) filled_ |= Bit(bin);
    Push(bin, object);
  }

  // The same for blocks up to kLargestExact, whose words tell their sizes.
  void PutExact(char* object, std::size_t block) {
    WordOf(object) |= kFree;
    Push(block / kUnit, object);
  }

  // A block of exactly `block` bytes, up to kLargestExact, or nullptr.
  char* TakeExact(std::size_t block) {
    char*& list = bins_[block / kUnit];
    char* const object = list;
    if (object != nullptr) list = Link(object);
    return object;
  }

  // A block of exactly `block` bytes, above kLargestExact, or nullptr. What a larger one has more
  // is put back.
  char* TakeCoarse(std::size_t block) {
    if (block <= kLargestExact) return nullptr;
    char* const object = TakeAtLeast(block);
    if (object == nullptr) return nullptr;
    if (const std::size_t more = BlockOf(object) - block) Put(object + block, more);
    return object;
  }

  // A block of at least `block` bytes, whole, or nullptr. Its word tells its size.
  char* TakeAtLeast(std::size_t block) {
    if (block > kLargestExact)
      if (char* const object = TakeFitting(BinHolding(block), block)) return object;
    std::size_t bin = BinAtLeast(block);
    for (; bin < kExactBins; ++bin)
      if (bins_[bin] != nullptr) return Pop(bin);
    for (std::uint64_t filled = filled_ & -Bit(bin); filled != 0; filled &= filled - 1) {
      bin = kExactBins + static_cast<std::size_t>(std::countr_zero(filled));
      if (bins_[bin] != nullptr) return Pop(bin);
      filled_ &= ~Bit(bin);
    }
    return nullptr;
  }

  void Clear() {
    std::fill(std::begin(bins_), std::end(bins_), nullptr);
    filled_ = 0;
  }

  static std::size_t BlockOf(void* object) { return BlockFor(WordOf(object) & ~kFree); }

 private:
  static constexpr std::size_t kExactBins = kLargestExact / kUnit + 1;  // the first has no blocks
  static constexpr std::size_t kBins = 117;
  static constexpr int kTries = 8;  // of a list whose blocks differ in size

  static char*& Link(char* object) { return *reinterpret_cast<char**>(object); }
  static constexpr std::uint64_t Bit(std::size_t bin) {
    return std::uint64_t{1} << (bin - kExactBins);
  }

  // The bin that a block is put into.
  static constexpr std::size_t BinHolding(std::size_t block) {
    if (block <= kLargestExact) return block / kUnit;
    const auto power = static_cast<std::size_t>(std::bit_width(block) - 1);
    const std::size_t quarter = block >> (power - 2) & 3;
    return kExactBins + 4 * (power - std::bit_width(kLargestExact) + 1) + quarter;
  }

  // The first bin all of whose blocks are at least as large.
  static constexpr std::size_t BinAtLeast(std::size_t block) {
    if (block <= kLargestExact) return BinHolding(block);
    return BinHolding(block - 1) + 1;
  }

  void Push(std::size_t bin, char* object) {
    Link(object) = bins_[bin];
    bins_[bin] = object;
  }

  char* Pop(std::size_t bin) {
    char* const object = bins_[bin];
    bins_[bin] = Link(object);
    return object;
  }

  // From the middle of the bin's list if need be.
  char* TakeFitting(std::size_t bin, std::size_t block) {
    static_assert(BinHolding(kLargestCached) < kBins && kBins - kExactBins <= 64);
    char** place = &bins_[bin];
    for (int tries = 0; tries < kTries && *place != nullptr; ++tries, place = &Link(*place)) {
      char* const object = *place;
      if (BlockOf(object) < block) continue;
      *place = Link(object);
      return object;
    }
    return nullptr;
  }

  char* bins_[kBins];
  std::uint64_t filled_;  // bins above the exact ones that may hold something
};

}  // namespace tare::reap
