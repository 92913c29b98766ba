// The directory of all leaves: objects are entered, found and removed here. leaf.hpp says what a
// leaf describes.

#pragma once

#include <sys/single_threaded.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>

#include "leaf.hpp"

namespace tare {

// While there is one thread, an ordinary instruction does; what came before is seen first.
inline Word SetBits(Word& word, Word bits) {
  if (!__libc_single_threaded) return __atomic_fetch_or(&word, bits, __ATOMIC_RELEASE);
  const Word before = word;
  __atomic_store_n(&word, before | bits, __ATOMIC_RELEASE);
  return before;
}
inline Word ClearBits(Word& word, Word bits) {
  if (!__libc_single_threaded) return __atomic_fetch_and(&word, ~bits, __ATOMIC_RELAXED);
  const Word before = word;
  word = before & ~bits;
  return before;
}

// Marks are set beside the program, even if that has one thread.
constinit inline bool marks_beside = false;

inline Word SetState(Word& state, Word bits) {
  return marks_beside ? __atomic_fetch_or(&state, bits, __ATOMIC_RELAXED) : SetBits(state, bits);
}

class Metadata {
 public:
  struct Found {
    Address start = 0;  // 0: there is no object
    Address end = 0;    // 0: not in the block of its start; see EndOf
    Block* block = nullptr;
  };

  // Enters an object of `bytes`, a multiple of the granule. False without memory for that.
  __attribute__((always_inline)) bool Enter(Address object, std::size_t bytes) {
    Leaf* const leaf = LeafOf(object);
    const Address last = object + bytes - kGranule;
    if (leaf == nullptr || (object ^ last) >= kBlockBytes) [[unlikely]]
      return EnterLong(object, last);
    const std::size_t index = BlockIndex(object);
    const unsigned granules = static_cast<unsigned>(bytes / kGranule);
    const Word bits = (StartBit(0) | EndBit(granules - 1)) << GranuleOf(object);
    if (!__libc_single_threaded) {
      EnterBeside(*leaf, index, bits);
      return true;
    }
    Word& bounds = leaf->blocks[index].bounds;
    const Word before = bounds;
    bounds = before | bits;
    if (before == 0) NoteBusy(*leaf, index);
    return true;
  }

  // Marks an object that is about to be entered: no sweep finds it without its mark. Without memory
  // for that it will not be entered either.
  __attribute__((noinline)) void MarkUnborn(Address object) {
    Leaf* const leaf = MakeLeaf(object & ~(kLeafBytes - 1));
    if (leaf == nullptr) return;
    SetState(leaf->blocks[BlockIndex(object)].state, StartBit(GranuleOf(object)));
    std::atomic_thread_fence(std::memory_order_release);
  }

  // Takes out the object that starts there; its bytes, or 0 if there is none.
  __attribute__((always_inline)) std::size_t Remove(Address object) {
    Leaf* const leaf = LeafOf(object);
    if (leaf == nullptr) return 0;
    const std::size_t index = BlockIndex(object);
    Block& block = leaf->blocks[index];
    const unsigned granule = GranuleOf(object);
    const Word bounds = Load(block.bounds), from_here = bounds >> granule;
    if ((from_here & StartBit(0)) == 0 || object % kGranule != 0) return 0;
    const Half ends = Ends(from_here);
    if (ends == 0) [[unlikely]]
      return RemoveLong(object, *leaf);
    const unsigned last = FirstIn(ends);
    const std::size_t bytes = (last + 1) * kGranule;
    const Word bits = (StartBit(0) | EndBit(last)) << granule;
    if (!__libc_single_threaded) return RemoveBeside(*leaf, index, granule, bits) ? bytes : 0;
    block.bounds = bounds & ~bits;
    ClearState(block, granule);
    if (bounds == bits) NoteIdle(*leaf, index);
    return bytes;
  }

  bool IsObject(Address object) const {
    const Block* const block = BlockOf(object);
    return block != nullptr && object % kGranule == 0 &&
           (Load(block->bounds) & StartBit(GranuleOf(object))) != 0;
  }

  // Bytes of the object that starts at `object`.
  std::size_t BytesOf(Address object) const { return EndOf(object) - object; }

  Address EndOf(Address object) const {
    const unsigned end = EndInBlock(Load(BlockOf(object)->bounds), GranuleOf(object));
    if (end != 32) return BlockBase(object) + (end + 1) * kGranule;
    return FarEndOf(object);
  }

  // The same of one that goes on beyond the block of its start: mostly to the next one.
  Address FarEndOf(Address object) const {
    const Address next = BlockBase(object) + kBlockBytes;
    const std::size_t index = BlockIndex(next);
    if (index == 0) return FartherEndOf(object);
    const Half ends = Ends(Load(LeafOf(object)->blocks[index].bounds));
    return ends != 0 ? next + (FirstIn(ends) + 1) * kGranule : FartherEndOf(object);
  }

  // The object that contains `address`, which need not be an address at all.
  Found Find(Address address) const {
    Block* const block = BlockOf(address);
    return block == nullptr ? Found{} : FindFrom(address, block);
  }

  // The same, when the block is known.
  __attribute__((always_inline)) Found FindFrom(Address address, Block* block) const {
    const unsigned granule = GranuleOf(address);
    const Word bounds = Load(block->bounds);
    const Half starts = Starts(bounds) & (~Half{0} >> (31 - granule));
    if (starts == 0) [[unlikely]]
      return FindBefore(address, block, bounds, granule);
    const unsigned start = LastIn(starts);
    const unsigned end = EndInBlock(bounds, start);
    if (end < granule) return {};
    const Address base = BlockBase(address);
    return {base + start * kGranule, end == 32 ? 0 : base + (end + 1) * kGranule, block};
  }

  Leaf* LeafOf(Address address) const {
    Leaf** const directory = Directory();
    if (address >> kAddressBits != 0 || directory == nullptr) [[unlikely]]
      return nullptr;
    return __atomic_load_n(&directory[address >> kLeafShift], __ATOMIC_ACQUIRE);
  }

  Block* BlockOf(Address address) const {
    Leaf* const leaf = LeafOf(address);
    return leaf == nullptr ? nullptr : &leaf->blocks[BlockIndex(address)];
  }

  Leaf* FirstLeaf() const { return __atomic_load_n(&leaves_, __ATOMIC_ACQUIRE); }

  // The block of `address` is to be visited too, though no object starts or ends in it.
  void NoteUse(Address address) {
    __atomic_store_n(&LeafOf(address)->used[BlockIndex(address) / kBlocksInGroup], 1,
                     __ATOMIC_RELAXED);
  }

  // Calls visit(base address, block) for each block that has held an object.
  template <typename Visit>
  void VisitBlocks(Visit visit) const {
    for (Leaf* leaf = FirstLeaf(); leaf != nullptr; leaf = leaf->next)
      for (std::size_t group = 0; group < kGroupsInLeaf; ++group)
        if (leaf->used[group] != 0) VisitGroup(*leaf, group, visit);
  }

  template <typename Visit>
  static void VisitGroup(Leaf& leaf, std::size_t group, Visit visit) {
    const std::size_t first = group * kBlocksInGroup;
    for (std::size_t index = first; index < first + kBlocksInGroup; ++index)
      visit(leaf.base + index * kBlockBytes, leaf.blocks[index]);
  }

  // Calls visit(from, to) for each stretch of objects that start in a block and are not freed.
  template <typename Visit>
  __attribute__((always_inline)) void EachLive(Address base, const Block& block,
                                               Visit visit) const {
    const Half live = Starts(block.bounds) & ~Freed(block.state);
    if (live != 0) EachOf(base, block.bounds, live, visit);
  }

  // The same of those that start at `some`.
  template <typename Visit>
  __attribute__((always_inline)) void EachOf(Address base, Word bounds, Half some,
                                             Visit visit) const {
    for (Word left = GranulesOf(bounds, some); left != 0;) {
      const auto first = static_cast<unsigned>(std::countr_zero(left));
      const auto next = first + static_cast<unsigned>(std::countr_one(left >> first));
      left &= ~((Word{1} << next) - 1);
      visit(base + first * kGranule, base + next * kGranule);
    }
    EachLong(base, bounds, some, visit);
  }

  // The one object, if any, of those that start at `some` which goes on beyond the block.
  template <typename Visit>
  __attribute__((always_inline)) void EachLong(Address base, Word bounds, Half some,
                                               Visit visit) const {
    const unsigned last = LastIn(Starts(bounds));
    if (Ends(bounds) >> last != 0 || (some >> last & 1) == 0) return;
    const Address object = base + last * kGranule;
    visit(object, FarEndOf(object));
  }

  // Calls visit(from, to) for each stretch of marked objects in some pages, while others are
  // entered and marked, but none is removed.
  template <typename Visit>
  void EachMarked(Address from, Address to, Visit visit) const {
    Address begin = 0, end = 0;
    const auto add = [&](Address next, Address next_end) {
      if (next != end) {
        if (begin != end) visit(begin, end);
        begin = next;
      }
      end = std::min(next_end, to);
    };
    const Found found = Find(from);
    if (found.start != 0 && found.start < from &&
        (Load(found.block->state) & StartBit(GranuleOf(found.start))) != 0)
      add(from, EndOf(found.start));
    for (Address at = BlockBase(from); at < to; at += kBlockBytes) {
      const Block* const block = BlockOf(at);
      if (block == nullptr) {
        at |= kLeafBytes - kBlockBytes;
        continue;
      }
      const Word bounds = Load(block->bounds);
      const Half marked = Marked(Load(block->state)) & Starts(bounds);
      if (marked != 0) EachOf(at, bounds, marked, add);
    }
    if (begin != end) visit(begin, end);
  }

  // Calls visit(from, to) for each stretch of groups in which objects have been.
  template <typename Visit>
  void EachStretch(Visit visit) const {
    for (const Leaf* leaf = FirstLeaf(); leaf != nullptr; leaf = leaf->next)
      for (std::size_t group = 0; group < kGroupsInLeaf;) {
        const std::size_t first = group;
        while (group < kGroupsInLeaf && IsInUse(*leaf, group)) ++group;
        if (group != first)
          visit(leaf->base + first * kGroupBytes, leaf->base + group * kGroupBytes);
        else
          ++group;
      }
  }

  // Takes all marks away, while the program frees objects.
  void ClearMarks() {
    VisitBlocks([](Address, Block& block) {
      if (Marked(Load(block.state)) != 0)
        __atomic_fetch_and(&block.state, ~Word{0} << 32, __ATOMIC_RELAXED);
    });
  }

  std::size_t UsedGroups() const {
    std::size_t used = 0;
    for (const Leaf* leaf = FirstLeaf(); leaf != nullptr; leaf = leaf->next)
      used += static_cast<std::size_t>(std::count(leaf->used, std::end(leaf->used), 1));
    return used;
  }

  bool HasObjects(Address from, Address to) const {
    if (from < to && Find(from).start != 0) return true;
    for (Address at = from & ~(kPageBytes - 1); at < to;) {
      const Leaf* const leaf = LeafOf(at);
      const Address next = (at + kGroupBytes) & ~(kGroupBytes - 1);
      if (leaf == nullptr) {
        at = (at + kLeafBytes) & ~(kLeafBytes - 1);
        continue;
      }
      if (leaf->used[BlockIndex(at) / kBlocksInGroup] != 0)
        for (Address block = at; block < std::min(next, to); block += kBlockBytes)
          if (leaf->blocks[BlockIndex(block)].bounds != 0) return true;
      at = next;
    }
    return false;
  }

  // Pages that hold at least a part of an object.
  std::size_t ActivePages() const { return active_.load(std::memory_order_relaxed); }

  // All objects lie between these.
  Address Low() const { return __atomic_load_n(&low_, __ATOMIC_RELAXED); }
  Address High() const { return __atomic_load_n(&high_, __ATOMIC_RELAXED); }
  std::size_t OwnBytes() const { return own_bytes_; }

  // Another thread may have been about to say that the first object of a group is in it.
  void AfterForkInChild() {
    lock_.unlock();
    if (__libc_single_threaded) return;
    for (Leaf* leaf = FirstLeaf(); leaf != nullptr; leaf = leaf->next)
      for (std::size_t group = 0; group < kGroupsInLeaf; ++group)
        if (leaf->used[group] == 0)
          VisitGroup(*leaf, group, [&](Address, const Block& block) {
            if (block.bounds != 0) leaf->used[group] = 1;
          });
  }

  // Where the most pages that were ever active are kept.
  std::atomic<std::uint64_t>* peak = nullptr;

 private:
  static constexpr Address kGroupBytes = kBlocksInGroup * kBlockBytes;

  // Objects lie in the group, or one goes on into it.
  static bool IsInUse(const Leaf& leaf, std::size_t group) {
    constexpr std::size_t kSegmentsInGroup = kBlocksInGroup / kBlocksInSegment;
    return __atomic_load_n(&leaf.used[group], __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&leaf.covers[group * kSegmentsInGroup], __ATOMIC_RELAXED) != 0;
  }

  static std::uint8_t Add(std::uint8_t& count, int more) {
    const auto change = static_cast<std::uint8_t>(more);
    if (!__libc_single_threaded) return __atomic_fetch_add(&count, change, __ATOMIC_RELAXED);
    const std::uint8_t before = count;
    count = static_cast<std::uint8_t>(before + change);
    return before;
  }

  // Where there are other threads.
  __attribute__((noinline)) void EnterBeside(Leaf& leaf, std::size_t block, Word bits) {
    if (SetBits(leaf.blocks[block].bounds, bits) == 0) NoteBusy(leaf, block);
  }
  __attribute__((noinline)) bool RemoveBeside(Leaf& leaf, std::size_t index, unsigned granule,
                                              Word bits) {
    Block& block = leaf.blocks[index];
    const Word before = ClearBits(block.bounds, bits);
    if ((before & StartBit(granule)) == 0) return false;
    ClearState(block, granule);
    if (before == bits) NoteIdle(leaf, index);
    return true;
  }

  // The first object starts or ends in a block.
  void NoteBusy(Leaf& leaf, std::size_t block) {
    if (Add(leaf.busy[block / kBlocksInPage], 1) != 0) return;
    __atomic_store_n(&leaf.used[block / kBlocksInGroup], 1, __ATOMIC_RELAXED);
    AddPages(1);
  }

  void NoteIdle(Leaf& leaf, std::size_t block) {
    if (Add(leaf.busy[block / kBlocksInPage], -1) == 1) RemovePages(1);
  }

  // What has been removed may be counted before it has been added.
  void AddPages(std::size_t pages) {
    const std::size_t now = ChangePages(pages);
    if (peak != nullptr && now * kPageBytes > peak->load(std::memory_order_relaxed) &&
        now < kLeaves * kLeafBytes / kPageBytes)
      peak->store(now * kPageBytes, std::memory_order_relaxed);
  }
  void RemovePages(std::size_t pages) { ChangePages(std::size_t{0} - pages); }

  std::size_t ChangePages(std::size_t change) {
    if (!__libc_single_threaded)
      return active_.fetch_add(change, std::memory_order_relaxed) + change;
    const std::size_t now = active_.load(std::memory_order_relaxed) + change;
    active_.store(now, std::memory_order_relaxed);
    return now;
  }

  void ClearState(Block& block, unsigned granule) {
    const Word bits = (StartBit(0) | EndBit(0)) << granule;
    if ((Load(block.state) & bits) == 0) return;
    if (marks_beside)
      __atomic_fetch_and(&block.state, ~bits, __ATOMIC_RELAXED);
    else
      ClearBits(block.state, bits);
  }

  __attribute__((noinline)) Found FindBefore(Address address, Block* block, Word bounds,
                                             unsigned granule) const {
    if ((Ends(bounds) & ((Half{1} << granule) - 1)) != 0) return {};
    const std::size_t in_segment = BlockIndex(address) % kBlocksInSegment;
    for (std::size_t back = 1; back <= in_segment; ++back) {
      const Word before = Load(block[-static_cast<std::ptrdiff_t>(back)].bounds);
      if (before == 0) continue;
      if (Starts(before) == 0) return {};
      const unsigned start = LastIn(Starts(before));
      if (EndInBlock(before, start) != 32) return {};
      return {BlockBase(address) - back * kBlockBytes + start * kGranule, 0, block - back};
    }
    const Address cover =
        __atomic_load_n(&LeafOf(address)->covers[SegmentIndex(address)], __ATOMIC_RELAXED);
    // A thread that a fork left in the midst of entering or removing an object set no start of it.
    return cover == 0 || !IsObject(cover) ? Found{} : Found{cover, 0, BlockOf(cover)};
  }

  // In steps of whole segments.
  __attribute__((noinline)) Address FartherEndOf(Address object) const {
    Address at = BlockBase(object) + kBlockBytes;
    for (;;) {
      const Address next = (at & ~((Address{1} << kSegmentShift) - 1)) + (1 << kSegmentShift);
      const Leaf* const after = LeafOf(next);
      if (after != nullptr && after->covers[SegmentIndex(next)] == object) {
        at = next;
        continue;
      }
      for (; at < next; at += kBlockBytes)
        if (const Half ends = Ends(Load(BlockOf(at)->bounds)); ends != 0)
          return at + (FirstIn(ends) + 1) * kGranule;
      return next;  // of an object that another thread removes at the same time
    }
  }

  void Cover(Address object, Address last, Address value) {
    for (Address segment = (object >> kSegmentShift) + 1; segment <= last >> kSegmentShift;
         ++segment) {
      const Address at = segment << kSegmentShift;
      __atomic_store_n(&LeafOf(at)->covers[SegmentIndex(at)], value, __ATOMIC_RELAXED);
    }
  }

  // Pages of an object that hold nothing else for sure: those between its first and its last.
  static std::size_t PagesBetween(Address object, Address last) {
    const std::size_t pages = last / kPageBytes - object / kPageBytes;
    return pages == 0 ? 0 : pages - 1;
  }

  __attribute__((noinline)) bool EnterLong(Address object, Address last) {
    for (Address at = object & ~(kLeafBytes - 1); at <= last; at += kLeafBytes)
      if (MakeLeaf(at) == nullptr) return false;
    const std::size_t first_block = BlockIndex(object), last_block = BlockIndex(last);
    Leaf &first_leaf = *LeafOf(object), &last_leaf = *LeafOf(last);
    Cover(object, last, object);
    const Word end = EndBit(GranuleOf(last)), start = StartBit(GranuleOf(object));
    if (SetBits(last_leaf.blocks[last_block].bounds, end) == 0) NoteBusy(last_leaf, last_block);
    if (SetBits(first_leaf.blocks[first_block].bounds, start) == 0)
      NoteBusy(first_leaf, first_block);
    AddPages(PagesBetween(object, last));
    return true;
  }

  __attribute__((noinline)) std::size_t RemoveLong(Address object, Leaf& first_leaf) {
    const Address end = FarEndOf(object), last = end - kGranule;
    const std::size_t first_block = BlockIndex(object), last_block = BlockIndex(last);
    const Word start_bit = StartBit(GranuleOf(object)), end_bit = EndBit(GranuleOf(last));
    Block& block = first_leaf.blocks[first_block];
    const Word before = ClearBits(block.bounds, start_bit);
    if ((before & start_bit) == 0) return 0;
    ClearState(block, GranuleOf(object));
    if (before == start_bit) NoteIdle(first_leaf, first_block);
    Leaf& last_leaf = *LeafOf(last);
    if (ClearBits(last_leaf.blocks[last_block].bounds, end_bit) == end_bit)
      NoteIdle(last_leaf, last_block);
    Cover(object, last, 0);
    RemovePages(PagesBetween(object, last));
    return end - object;
  }

  Leaf* MakeLeaf(Address base) {
    if (base >> kAddressBits != 0) return nullptr;
    if (Directory() == nullptr && !MakeDirectory()) return nullptr;
    Leaf*& place = Directory()[base >> kLeafShift];
    if (Leaf* const found = __atomic_load_n(&place, __ATOMIC_ACQUIRE); found != nullptr)
      return found;
    const std::scoped_lock guard(lock_);
    if (place != nullptr) return place;
    auto* const leaf = static_cast<Leaf*>(MapOwn(sizeof(Leaf)));
    if (leaf == nullptr) return nullptr;
    leaf->base = base;
    leaf->next = leaves_;
    __atomic_store_n(&low_, leaves_ == nullptr ? base : std::min(low_, base), __ATOMIC_RELAXED);
    __atomic_store_n(&high_, std::max(high_, base + kLeafBytes), __ATOMIC_RELAXED);
    own_bytes_ += sizeof(Leaf);
    __atomic_store_n(&leaves_, leaf, __ATOMIC_RELEASE);
    __atomic_store_n(&place, leaf,
                     __ATOMIC_RELEASE);  // last: what has a leaf is swept, and searched
    return leaf;
  }

  // Another thread may be making it.
  Leaf** Directory() const { return __atomic_load_n(&directory_, __ATOMIC_ACQUIRE); }

  bool MakeDirectory() {
    const std::scoped_lock guard(lock_);
    if (directory_ != nullptr) return true;
    auto* const made = static_cast<Leaf**>(MapOwn(kLeaves * sizeof(Leaf*)));
    if (made == nullptr) return false;
    own_bytes_ += kLeaves * sizeof(Leaf*);
    __atomic_store_n(&directory_, made, __ATOMIC_RELEASE);
    return true;
  }

  Leaf** directory_ = nullptr;
  Leaf* leaves_ = nullptr;
  Address low_ = 0;
  Address high_ = 0;
  std::size_t own_bytes_ = 0;
  std::atomic<std::size_t> active_ = 0;
  SpinLock lock_;
};

constinit inline Metadata metadata;

}  // namespace tare
