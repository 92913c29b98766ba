// Marks what can be reached. A word is a pointer if it lies in an object. What could be one waits
// in a short queue while the bits that tell are fetched, and an object that is to be searched waits
// in another one while its words are.
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
    spans_ = {};
    candidates_ = {};
    overflowed_ = false;
  }
  void MapLists() { stack_.Map(); }

  // Marks what can be reached from `count` spans; alone.
  void MarkAlone(const Span* spans, std::size_t count, SharedWork& shared) {
    for (std::size_t i = 0; i < count; ++i) {
      Search<false>(spans[i]);
      Drain<false>(nullptr);
    }
    if (in_quarantine) SearchLive<false>(shared);
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  // Marks with others, each of whom calls this, until nobody has work.
  void MarkTogether(SharedWork& shared) {
    if (in_quarantine) SearchLive<true>(shared);
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

  // Beside the program, and what is found is searched later.
  void SearchLater(const Span& span) {
    Search<true>(span);
    while (!candidates_.Empty()) Consider<true>(candidates_.Take());
  }
  void SearchBeside(const Span& span, SharedWork& shared) {
    Search<true>(span);
    DrainBeside(shared);
  }
  void DrainBeside(SharedWork& shared) {
    Drain<true>(&shared);
    if (overflowed_) shared.Overflow();
    overflowed_ = false;
  }

  void Trim() { stack_.Trim(kKeptBytes); }

 private:
  static constexpr std::size_t kKeptBytes = 1 << 16;
  static constexpr std::size_t kLine = 64, kFetched = 256;  // what follows, the processor guesses
  static constexpr std::size_t kPiece = 1 << 16;  // bytes searched before others may have the rest

  struct Candidate {
    Address address = 0;
    Block* block = nullptr;
  };

  template <typename T, unsigned kLength>
  class Queue {
   public:
    bool Empty() const { return in_ == out_; }
    bool Full() const { return in_ - out_ == kLength; }
    void Add(const T& value) { values_[in_++ % kLength] = value; }
    T Take() { return values_[out_++ % kLength]; }

   private:
    T values_[kLength]{};
    unsigned in_ = 0, out_ = 0;
  };

  void Push(const Span& span) {
    if (!stack_.Add(span)) overflowed_ = true;
  }

  template <bool kTogether>
  void Drain(SharedWork* shared) {
    for (;;) {
      if (!stack_.Empty() && !spans_.Full()) {
        Wait<kTogether>(stack_.Take(), shared);
      } else if (!spans_.Empty()) {
        Search<kTogether>(spans_.Take());
      } else if (!candidates_.Empty()) {
        Consider<kTogether>(candidates_.Take());
      } else {
        return;
      }
    }
  }

  template <bool kTogether>
  void Wait(Span span, SharedWork* shared) {
    if constexpr (kTogether) {
      if (span.to - span.from > kPiece) {
        Push({span.from + kPiece + step - sizeof(Address), span.to});
        span.to = span.from + kPiece;
      }
      if (shared->IsWanted()) Share(*shared);
    }
    const Address fetched = std::min(span.to, span.from + kFetched);
    for (Address at = span.from; at < fetched; at += kLine)
      __builtin_prefetch(reinterpret_cast<const void*>(at));
    spans_.Add(span);
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
      if (kTogether && to - from > kPiece)
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

  template <bool kTogether>
  void Search(const Span& span) {
    if (step != sizeof(Address)) [[unlikely]]
      return SearchPacked<kTogether>(span);
    const Address low = metadata.Low(), range = metadata.High() - low;
    if (in_quarantine)
      SearchWords<kTogether>(
          span, [filter = held.Shown()](Address word) { return filter.MayHold(word); });
    else
      SearchWords<kTogether>(span, [=](Address word) { return word - low < range; });
  }

  template <bool kTogether, typename IsWanted>
  __attribute__((always_inline)) void SearchWords(const Span& span, IsWanted is_wanted) {
    const auto search = [&](Address at) __attribute__((always_inline)) {
      const Address word = __atomic_load_n(reinterpret_cast<const Address*>(at), __ATOMIC_RELAXED);
      if (is_wanted(word)) [[unlikely]]
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
  __attribute__((noinline)) void SearchPacked(const Span& span) {
    const Address low = metadata.Low(), range = metadata.High() - low;
    for (Address at = span.from; at + sizeof(Address) <= span.to; at += step) {
      Address word;
      memcpy(&word, reinterpret_cast<const void*>(at), sizeof word);
      if (word - low < range) [[unlikely]]
        Enqueue<kTogether>(word);
    }
  }

  template <bool kTogether>
  __attribute__((noinline)) void Enqueue(Address word) {
    Block* const block = metadata.BlockOf(word);
    if (block == nullptr) return;
    __builtin_prefetch(block);
    if (candidates_.Full()) Consider<kTogether>(candidates_.Take());
    candidates_.Add({word, block});
  }

  template <bool kTogether>
  __attribute__((always_inline)) void Consider(const Candidate& candidate) {
    const unsigned granule = GranuleOf(candidate.address);
    // Most words lead to what is marked already.
    if ((Load(candidate.block->state) & StartBit(granule)) != 0) return;
    const Word bounds = Load(candidate.block->bounds);
    if ((bounds & StartBit(granule)) == 0) [[unlikely]]
      return ConsiderInside<kTogether>(candidate);
    if (!IsOfInterest(*candidate.block, granule)) return;
    const unsigned end = EndInBlock(bounds, granule);
    if (!Mark<kTogether>(*candidate.block, granule, end)) return;
    const Address start = candidate.address & ~(kGranule - 1);
    Found(start, end != 32 ? start + (end - granule + 1) * kGranule : metadata.FarEndOf(start));
  }

  // Not a pointer to the start of an object, but perhaps to what is behind it.
  template <bool kTogether>
  __attribute__((noinline)) void ConsiderInside(const Candidate& candidate) {
    const Metadata::Found found = metadata.FindFrom(candidate.address, candidate.block);
    if (found.start == 0) return;
    const unsigned granule = GranuleOf(found.start);
    if (!IsOfInterest(*found.block, granule)) return;
    if (found.block != candidate.block) {
      metadata.NoteUse(candidate.address);
      Mark<kTogether>(*candidate.block, 0, EndInBlock(Load(candidate.block->bounds), 0));
    }
    const unsigned end = EndInBlock(Load(found.block->bounds), granule);
    if (!Mark<kTogether>(*found.block, granule, end)) return;
    Found(found.start, found.end != 0 ? found.end : metadata.FarEndOf(found.start));
  }

  static bool IsOfInterest(const Block& block, unsigned granule) {
    return !in_quarantine || (Load(block.state) & EndBit(granule)) != 0;
  }

  // Marks an object in one block: all its granules, so that each further pointer into them is known
  // at a glance. `end` is 32 if it goes on. Whether the mark of the first one is new.
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
  Queue<Span, 8> spans_;
  Queue<Candidate, 16> candidates_;
  bool overflowed_ = false;
};

}  // namespace tare
