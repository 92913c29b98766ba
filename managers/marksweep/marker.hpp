// Marks what can be reached. A word is a pointer if it lies in an object. A few objects are
// searched at a time, then what was found in them is looked up: while one is done, what the other
// one needs is fetched.
//
// In quarantine only what the program has freed is marked, from all that it has not freed. So
// memory is searched from its beginning to its end, and not along pointers, and a small table
// dismisses almost every word; see held.hpp.

#pragma once

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "held.hpp"
#include "metadata.hpp"
#include "ranges.hpp"
#include "spin_lock.hpp"
#include "tare/platform/pause.hpp"

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
    unsearched_ = {metadata.FirstLeaf(), 0};
  }

  void MapLists() { spans_.Map(); }

  struct Groups {
    Leaf* leaf;  // nullptr: there are no more
    std::size_t first;
  };
  static constexpr std::size_t kGroupsTaken = 16;

  // The next groups of blocks of which nobody has searched the live objects.
  Groups TakeGroups() {
    const std::scoped_lock guard(lock_);
    const Groups taken = unsearched_;
    if (taken.leaf == nullptr) return taken;
    unsearched_.first += kGroupsTaken;
    if (unsearched_.first == kGroupsInLeaf) unsearched_ = {taken.leaf->next, 0};
    return taken;
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
        platform::Pause();
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
  Groups unsearched_{};
};
static_assert(kGroupsInLeaf % SharedWork::kGroupsTaken == 0);

// Apart from the next one: each writes to its own all the time, and processors fetch lines in
// pairs.
class alignas(128) Marker {
 public:
  // Bytes from one word that can be a pointer to the next: 8, or 4 for programs that pack them.
  static inline constinit std::size_t step = sizeof(Address);
  static inline constinit bool in_quarantine = false;

  std::size_t objects = 0;
  std::size_t bytes = 0;
  std::size_t live_bytes = 0;  // searched in quarantine

  // A fork may have left something of what another thread marked.
  void Begin() {
    objects = bytes = live_bytes = 0;
    stack_.Clear();
    found_ = 0;
    overflowed_ = false;
  }
  void MapLists() { stack_.Map(); }

  // Marks what can be reached from `count` spans; alone.
  void MarkAlone(const Span* spans, std::size_t count, SharedWork& shared) {
    for (std::size_t i = 0; i < count; ++i) Search<false>(spans[i]);
    Drain<false>(nullptr);
    if (in_quarantine) SearchLive<false>(shared);
    PassOverflow(shared);
  }

  // Marks with others, each of whom calls this, until nobody has work.
  void MarkTogether(SharedWork& shared) {
    if (in_quarantine) SearchLive<true>(shared);
    do Drain<true>(&shared);
    while (shared.Await([this](const Span& span) { Push(span); }));
    PassOverflow(shared);
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
    PassOverflow(shared);
  }

  // Beside the program, and what is found is searched later.
  void SearchLater(const Span& span) {
    Search<true>(span);
    FetchBlocks();
    ConsiderWords<true>();
  }
  void SearchBeside(const Span& span, SharedWork& shared) {
    Search<true>(span);
    DrainBeside(shared);
  }
  void DrainBeside(SharedWork& shared) {
    Drain<true>(&shared);
    PassOverflow(shared);
  }

  void Trim() { stack_.Trim(kKeptBytes); }

 private:
  static constexpr std::size_t kKeptBytes = 1 << 20;
  static constexpr std::size_t kLong = 1 << 16;  // bytes, of which others may have a part
  // What is searched at a time: so many spans, and of each so many words.
  static constexpr std::size_t kSpans = 8, kPieceWords = 64, kMostWords = kSpans * kPieceWords;

  void Push(const Span& span) {
    if (!stack_.Add(span)) overflowed_ = true;
  }

  void PassOverflow(SharedWork& shared) {
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  // Each span is fetched when the one before it in its place has been searched.
  template <bool kTogether>
  void Drain(SharedWork* shared) {
    for (std::size_t fetched = 0;;) {
      FetchBlocks();
      ConsiderWords<kTogether>();
      while (fetched < kSpans && !stack_.Empty()) spans_[fetched++] = FetchSpan();
      if (fetched == 0) return;
      const std::size_t count = std::exchange(fetched, 0);
      if (count == 1 && IsShort(spans_[0])) {
        SearchAtOnce<kTogether>(spans_[0]);
        continue;
      }
      for (std::size_t i = 0; i < count; ++i) {
        const Span span = spans_[i];
        if (const Address left = Gather(span); left != span.to) Push({left, span.to});
        if (!stack_.Empty()) spans_[fetched++] = FetchSpan();
      }
      if constexpr (kTogether)
        if (shared->IsWanted()) Share(*shared);
    }
  }

  static bool IsShort(const Span& span) {
    return span.to - span.from <= kPieceWords * sizeof(Address) && step == sizeof(Address) &&
           !in_quarantine;
  }

  // Along a list there is nothing to be done meanwhile.
  template <bool kTogether>
  void SearchAtOnce(const Span& span) {
    const Address low = metadata.Low(), range = metadata.High() - low;
    for (Address at = span.from; at != span.to; at += sizeof at)
      if (const Address word = WordAt<sizeof at>(at); word - low < range)
        if (Block* const block = metadata.BlockOf(word)) Consider<kTogether>(word, block);
  }

  Span FetchSpan() {
    constexpr Address kLine = 64, kFetched = 256;  // what follows, the processor guesses
    const Span span = stack_.Take();
    const Address fetched = std::min(span.to, span.from + kFetched);
    for (Address at = span.from; at < fetched; at += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(at));
    return span;
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

  // All objects that the program has not freed.
  template <bool kTogether>
  void SearchLive(SharedWork& shared) {
    const auto search = [this](Address from, Address to) {
      live_bytes += to - from;
      if (kTogether && to - from > kLong)
        Push({from, to});
      else
        Search<kTogether>({from, to});
    };
    for (auto groups = shared.TakeGroups(); groups.leaf != nullptr; groups = shared.TakeGroups()) {
      for (std::size_t i = 0; i < SharedWork::kGroupsTaken; ++i)
        if (groups.leaf->used[groups.first + i] != 0)
          Metadata::VisitGroup(
              *groups.leaf, groups.first + i,
              [&](Address base, const Block& block) { metadata.EachLive(base, block, search); });
      Drain<kTogether>(&shared);
    }
  }

  // All of a span. The last words that are found are left for the next FetchBlocks.
  template <bool kTogether>
  void Search(Span span) {
    while (span.from != span.to) {
      if (found_ > kMostWords - kPieceWords) {
        FetchBlocks();
        ConsiderWords<kTogether>();
      }
      span.from = Gather(span);
    }
  }

  // Finds the words that can be pointers in the first piece of a span; returns its end.
  __attribute__((always_inline)) Address Gather(const Span& span) {
    return step == sizeof(Address) ? GatherBy<sizeof(Address)>(span) : GatherPacked(span);
  }

  template <std::size_t kStep>
  __attribute__((always_inline)) Address GatherBy(const Span& span) {
    const Address low = metadata.Low(), range = metadata.High() - low;
    const Address rest = span.from + kPieceWords * kStep;
    const Address behind = span.to - (sizeof(Address) - kStep), end = std::min(rest, behind);
    Address* next = words_ + found_;
    if (in_quarantine) {
      const auto filter = held.Shown();
      for (Address at = span.from; at < end; at += kStep) {
        const Address word = WordAt<kStep>(at);
        if (filter.MayHold(word) && word - low < range) [[unlikely]]
          *next++ = word;
      }
    } else {
      // Text has no pointers for long, which the processor guesses. Where there are some it cannot
      // guess which, so there is no branch for each.
      constexpr Address kGroup = 4 * kStep;
      Address at = span.from;
      const auto keep = [&](Address word) {
        *next = word;
        next += word - low < range;
      };
      for (; at + kGroup <= end; at += kGroup) {
        const Address a = WordAt<kStep>(at), b = WordAt<kStep>(at + kStep);
        const Address c = WordAt<kStep>(at + 2 * kStep), d = WordAt<kStep>(at + 3 * kStep);
        if (((a - low < range) | (b - low < range) | (c - low < range) | (d - low < range)) == 0)
          continue;
        keep(a), keep(b), keep(c), keep(d);
      }
      for (; at < end; at += kStep) keep(WordAt<kStep>(at));
    }
    found_ = static_cast<std::size_t>(next - words_);
    return rest < behind ? rest : span.to;
  }

  __attribute__((noinline)) Address GatherPacked(const Span& span) { return GatherBy<4>(span); }

  template <std::size_t kStep>
  static Address WordAt(Address at) {
    if constexpr (kStep == sizeof(Address))
      return __atomic_load_n(reinterpret_cast<const Address*>(at), __ATOMIC_RELAXED);
    Address word;
    memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
    return word;
  }

  // Of the words that were found, those that may lead to an object are left.
  void FetchBlocks() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < found_; ++i) {
      const Address word = words_[kept] = words_[i];
      Block* const block = blocks_[kept] = metadata.BlockOf(word);
      __builtin_prefetch(block);
      kept += block != nullptr;
    }
    found_ = kept;
  }

  // After FetchBlocks.
  template <bool kTogether>
  __attribute__((always_inline)) void ConsiderWords() {
    const std::size_t found = std::exchange(found_, 0);
    for (std::size_t i = 0; i < found; ++i) Consider<kTogether>(words_[i], blocks_[i]);
  }

  template <bool kTogether>
  __attribute__((always_inline)) void Consider(Address word, Block* block) {
    const unsigned granule = GranuleOf(word);
    // Most words lead to what is marked already.
    if ((Load(block->state) & StartBit(granule)) != 0) return;
    const Word bounds = Load(block->bounds);
    if ((bounds & StartBit(granule)) == 0) [[unlikely]]
      return ConsiderInside<kTogether>(word, block);
    if (!IsOfInterest(*block, granule)) return;
    const unsigned end = EndInTwo(bounds, Load(block[1].bounds), granule);
    if (!Mark<kTogether>(*block, granule, end)) return;
    const Address start = word & ~(kGranule - 1);
    Found(start, end != 64 ? start + (end - granule + 1) * kGranule : metadata.FarEndOf(start));
  }

  // Not a pointer to the start of an object, but perhaps to what is behind it.
  template <bool kTogether>
  __attribute__((noinline)) void ConsiderInside(Address word, Block* block) {
    const Metadata::Found found = metadata.FindFrom(word, block);
    if (found.start == 0) return;
    const unsigned granule = GranuleOf(found.start);
    if (!IsOfInterest(*found.block, granule)) return;
    if (found.block != block) {
      metadata.NoteUse(word);
      Mark<kTogether>(*block, 0, EndInBlock(Load(block->bounds), 0));
    }
    const unsigned end = EndInBlock(Load(found.block->bounds), granule);
    if (!Mark<kTogether>(*found.block, granule, end)) return;
    Found(found.start, found.end != 0 ? found.end : metadata.FarEndOf(found.start));
  }

  static bool IsOfInterest(const Block& block, unsigned granule) {
    return !in_quarantine || (Load(block.state) & EndBit(granule)) != 0;
  }

  // Marks an object in one block: all its granules, so that each further pointer into them is known
  // at a glance. `end` is above 31 if it goes on. Whether the mark of the first one is new.
  template <bool kTogether>
  static bool Mark(Block& block, unsigned first, unsigned end) {
    const Word bits = BitsFromTo(first, std::min(end, 31U)), before = Load(block.state);
    if ((before & StartBit(first)) != 0) return false;
    if constexpr (kTogether)
      return (__atomic_fetch_or(&block.state, bits, __ATOMIC_RELAXED) & StartBit(first)) == 0;
    block.state = before | bits;
    return true;
  }

  __attribute__((always_inline)) void Found(Address start, Address end) {
    ++objects;
    bytes += end - start;
    Push({start, end});
  }

  OwnArray<Span> stack_;
  Span spans_[kSpans]{};
  Address words_[kMostWords + 1]{};  // Gather writes one behind those that it finds
  Block* blocks_[kMostWords + 1]{};
  std::size_t found_ = 0;
  bool overflowed_ = false;
};

}  // namespace tare
