// Which words can be pointers to what the program has freed: a bit for each granule, where the
// addresses of larger heaps share one. What is not dismissed here is looked up.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "metadata.hpp"

namespace tare {

class Held {
 public:
  struct Table {
    const Word* words;
    std::size_t mask;

    __attribute__((always_inline)) bool MayHold(Address word) const {
      return (words[word / kCovered & mask] >> (word / kGranule % 64) & 1) != 0;
    }
  };

  // Enters all freed objects. No other thread runs.
  void Find() {
    Resize(metadata.ActivePages() * kPageBytes);
    memset(words_, 0, count_ * sizeof *words_);
    metadata.VisitBlocks([&](Address base, const Block& block) {
      const Half freed = Freed(block.state) & Starts(block.bounds);
      if (freed == 0) return;
      words_[base / kCovered & (count_ - 1)] |= Word{GranulesOf(block.bounds, freed)}
                                                << base / kGranule % 64;
      metadata.EachLong(base, block.bounds, freed,
                        [this](Address from, Address to) { Add(from, to); });
    });
  }

  Table Shown() const { return {words_, count_ - 1}; }

 private:
  static constexpr std::size_t kCovered = 64 * kGranule;  // bytes, by a word
  static constexpr std::size_t kFewest = 64, kMost = std::size_t{1} << 20;

  // To the next power of two; without memory for that, it stays as it is.
  void Resize(std::size_t heap_bytes) {
    const std::size_t wanted = std::clamp(std::bit_ceil(heap_bytes / kCovered), kFewest, kMost);
    if (wanted <= count_) return;
    void* const made = MapOwn(wanted * sizeof *words_);
    if (made == nullptr) return;
    if (words_ != few_) UnmapOwn(words_, count_ * sizeof *words_);
    words_ = static_cast<Word*>(made);
    count_ = wanted;
  }

  void Add(Address from, Address to) {
    for (Address at = from; at < to; at = (at / kCovered + 1) * kCovered) {
      const std::size_t first = at / kGranule % 64;
      const std::size_t granules = std::min<std::size_t>((to - at) / kGranule, 64 - first);
      words_[at / kCovered & (count_ - 1)] |= ~Word{0} >> (64 - granules) << first;
    }
  }

  Word few_[kFewest]{};
  Word* words_ = few_;
  std::size_t count_ = kFewest;
};

constinit inline Held held;

}  // namespace tare
