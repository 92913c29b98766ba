// Marks what can be reached. A word is a pointer if it lies in an object; words are looked at in
// order, but each waits in a short queue while the memory that it leads to is fetched.

#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "metadata.hpp"
#include "ranges.hpp"
#include "spin_lock.hpp"

namespace tare {

struct Span {
  Address from, to;
};

// Spans that are left to search, for any of the markers.
class SharedWork {
 public:
  // Before the markers begin.
  void Begin(std::size_t markers) {
    markers_ = markers;
    idle_.store(0, std::memory_order_relaxed);
    overflowed_.store(false, std::memory_order_relaxed);
  }

  // One marker less.
  void Leave() { idle_.fetch_add(1, std::memory_order_acq_rel); }

  bool IsWanted() const { return idle_.load(std::memory_order_relaxed) != 0; }

  void Give(const Span* spans, std::size_t count) {
    const std::scoped_lock guard(lock_);
    for (std::size_t i = 0; i < count; ++i)
      if (!spans_.Add(spans[i])) overflowed_.store(true, std::memory_order_relaxed);
    count_.store(spans_.Size(), std::memory_order_release);
  }

  // Some spans into `taken`; false when there is no work left in any marker.
  template <typename Take>
  bool Await(Take take) {
    if (TakeSome(take)) return true;
    idle_.fetch_add(1, std::memory_order_acq_rel);
    for (unsigned tries = 0;; ++tries) {
      if (idle_.load(std::memory_order_acquire) == markers_) return false;
      if (count_.load(std::memory_order_acquire) != 0) {
        idle_.fetch_sub(1, std::memory_order_acq_rel);
        if (TakeSome(take)) return true;
        idle_.fetch_add(1, std::memory_order_acq_rel);
      }
      if (tries % 64 == 63)
        syscall(SYS_sched_yield);
      else
        __builtin_ia32_pause();
    }
  }

  bool Overflowed() const { return overflowed_.load(std::memory_order_relaxed); }
  void Overflow() { overflowed_.store(true, std::memory_order_relaxed); }

 private:
  template <typename Take>
  bool TakeSome(Take take) {
    constexpr std::size_t kMost = 32;
    const std::scoped_lock guard(lock_);
    const std::size_t count = std::min(kMost, (spans_.Size() + 1) / 2);
    for (std::size_t i = 0; i < count; ++i) take(spans_.Take());
    count_.store(spans_.Size(), std::memory_order_release);
    return count != 0;
  }

  SpinLock lock_;
  OwnArray<Span> spans_;
  std::atomic<std::size_t> count_ = 0;
  std::atomic<std::size_t> idle_ = 0;
  std::atomic<bool> overflowed_ = false;
  std::size_t markers_ = 1;
};

class Marker {
 public:
  std::size_t objects = 0;
  std::size_t bytes = 0;

  // `direct`: a small heap is in the cache, so that no word need wait.
  void Begin(bool direct) {
    objects = bytes = 0;
    direct_ = direct;
  }

  // Marks what can be reached from `count` spans; alone.
  void MarkAlone(const Span* spans, std::size_t count, SharedWork& shared) {
    for (std::size_t i = 0; i < count; ++i) {
      Search<false>(spans[i]);
      Drain<false>(nullptr);
    }
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  // Marks with others, each of whom calls this, until nobody has work.
  void MarkTogether(SharedWork& shared) {
    do Drain<true>(&shared);
    while (shared.Await([this](const Span& span) { Push(span); }));
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  // Searches again all that is marked: something had to be left out, for want of memory.
  void MarkAgain(SharedWork& shared) {
    metadata.VisitBlocks([&](Address base, Block& block) {
      Half marked = Marked(block.state) & Starts(block.bounds);
      for (; marked != 0; marked &= marked - 1) {
        const Address object = base + FirstIn(marked) * kGranule;
        Search<false>({object, metadata.EndOf(object)});
        Drain<false>(nullptr);
      }
    });
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  void Trim() { stack_.Trim(kKeptBytes); }

 private:
  static constexpr std::size_t kQueue = 16;
  static constexpr std::size_t kKeptBytes = 1 << 16;
  static constexpr std::size_t kPiece = 1 << 16;  // bytes searched before others may have the rest

  struct Candidate {
    Address address = 0;
    Block* block = nullptr;
  };

  void Push(const Span& span) {
    if (!stack_.Add(span)) overflowed_ = true;
  }

  template <bool kTogether>
  void Drain(SharedWork* shared) {
    for (;;) {
      while (!stack_.Empty()) {
        Span span = stack_.Take();
        if constexpr (kTogether) {
          if (span.to - span.from > kPiece) {
            Push({span.from + kPiece, span.to});
            span.to = span.from + kPiece;
          }
          if (shared->IsWanted()) Share(*shared);
        }
        Search<kTogether>(span);
      }
      if (queued_ == taken_) return;
      while (queued_ != taken_) Consider<kTogether>(queue_[taken_++ % kQueue]);
    }
  }

  // The oldest spans: they lead to the most work.
  void Share(SharedWork& shared) {
    constexpr std::size_t kWorthIt = 8;
    const std::size_t size = stack_.Size();
    if (size < kWorthIt) return;
    shared.Give(stack_.begin(), size / 2);
    std::copy(stack_.begin() + size / 2, stack_.end(), stack_.begin());
    stack_.Shorten(size - size / 2);
  }

  template <bool kTogether>
  void Search(const Span& span) {
    const Address low = metadata.Low(), range = metadata.High() - low;
    const auto search = [&](Address at) __attribute__((always_inline)) {
      const Address word = __atomic_load_n(reinterpret_cast<const Address*>(at), __ATOMIC_RELAXED);
      if (word - low < range) [[unlikely]]
        Enqueue<kTogether>(word);
    };
    Address at = span.from;
    if ((span.to - at) % (2 * sizeof at) != 0) {
      search(at);
      at += sizeof at;
    }
    for (; at != span.to; at += 2 * sizeof at) {  // objects have an even number of words
      search(at);
      search(at + sizeof at);
    }
  }

  template <bool kTogether>
  __attribute__((noinline)) void Enqueue(Address word) {
    Block* const block = metadata.BlockOf(word);
    if (block == nullptr) return;
    // Most words lead to the start of what is marked already.
    if ((Load(block->state) >> GranuleOf(word) & 1) != 0) return;
    if (direct_) return Consider<kTogether>({word, block});
    __builtin_prefetch(reinterpret_cast<const void*>(word));
    if (queued_ - taken_ == kQueue) Consider<kTogether>(queue_[taken_++ % kQueue]);
    queue_[queued_++ % kQueue] = {word, block};
  }

  template <bool kTogether>
  __attribute__((always_inline)) void Consider(const Candidate& candidate) {
    const unsigned granule = GranuleOf(candidate.address);
    const Word bounds = Load(candidate.block->bounds);
    if ((bounds >> granule & 1) == 0) [[unlikely]]
      return ConsiderInside<kTogether>(candidate);
    if (!Mark<kTogether>(*candidate.block, granule)) return;
    const Address start = candidate.address & ~(kGranule - 1);
    const Half ends = Ends(bounds) >> granule;
    Found(start, ends != 0 ? start + (FirstIn(ends) + 1) * kGranule : metadata.EndOf(start));
  }

  // Not a pointer to the start of an object, but perhaps to what is behind it.
  template <bool kTogether>
  __attribute__((noinline)) void ConsiderInside(const Candidate& candidate) {
    const Metadata::Found found = metadata.FindFrom(candidate.address, candidate.block);
    if (found.start == 0 || !Mark<kTogether>(*found.block, GranuleOf(found.start))) return;
    Found(found.start, found.end != 0 ? found.end : metadata.EndOf(found.start));
  }

  // Whether the mark is new.
  template <bool kTogether>
  static bool Mark(Block& block, unsigned granule) {
    const Word bit = StartBit(granule), before = Load(block.state);
    if ((before & bit) != 0) return false;
    if constexpr (kTogether)
      return (__atomic_fetch_or(&block.state, bit, __ATOMIC_RELAXED) & bit) == 0;
    block.state = before | bit;
    return true;
  }

  __attribute__((always_inline)) void Found(Address start, Address end) {
    ++objects;
    bytes += end - start;
    Push({start, end});
  }

  OwnArray<Span> stack_;
  Candidate queue_[kQueue]{};
  unsigned queued_ = 0, taken_ = 0;
  bool overflowed_ = false;
  bool direct_ = false;
};

}  // namespace tare
