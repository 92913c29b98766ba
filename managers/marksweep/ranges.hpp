// Who owns which part of the address space: sorted ranges, and memory of the layer's own.
//
// The ranges lie in leaves, and an index has the leaves in order. A leaf that is in the index is
// not changed: new leaves are written, and a new index of them beside the old one, which then
// stands for it. So the child of a fork has whole ranges, whatever other threads were at; and a
// change among many thousand ranges writes a few leaves, and an index of a pointer for each leaf.

#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "spin_lock.hpp"
#include "tare/platform/memory.hpp"

namespace tare {

using Address = std::uintptr_t;

using platform::PageDown;
using platform::PageUp;

// The kernel's own calls: the functions of these names are the layer's, see mappings.cpp.
inline void* SystemMap(std::size_t bytes) {
  void* const pages =
      reinterpret_cast<void*>(syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (pages == MAP_FAILED) return nullptr;
  syscall(SYS_madvise, pages, bytes, MADV_NOHUGEPAGE);
  return pages;
}
inline void SystemUnmap(void* pages, std::size_t bytes) { syscall(SYS_munmap, pages, bytes); }

enum class Owner : std::uint8_t { kNobody, kProgram, kAllocator };

class Ranges {
 public:
  struct Range {
    Address from, to;
    Owner owner;
  };

  // Threads that can be stopped call it in critical sections only.
  void Assign(Address from, Address to, Owner owner) {
    const std::scoped_lock guard(lock_);
    if (from < to && Reserve()) Write(from, to, owner);
  }

  Owner OwnerOf(Address address) {
    const std::scoped_lock guard(lock_);
    const Range* const found = FirstEndingAfter(address);
    return found != End() && found->from <= address ? found->owner : Owner::kNobody;
  }

  // The first range that ends after `address`, until the next Assign; End() if there is none. For
  // the collector.
  const Range* FirstEndingAfter(Address address) const {
    const Index& index = Current();
    const Place place = PlaceAfter(address);
    return place.leaf == index.used ? End() : &index.leaves[place.leaf]->items[place.item];
  }
  const Range* End() const { return nullptr; }

  void AfterForkInChild() { lock_.unlock(); }

 private:
  static constexpr std::size_t kLeafRanges = 64;
  static constexpr std::size_t kPieces = 3;      // of ranges, that a change makes of one
  static constexpr std::size_t kNewLeaves = 3;   // that a change needs at most
  static constexpr std::size_t kMostMapped = 3;  // by one Reserve
  static constexpr std::size_t kRoom = kNewLeaves * (1 + kMostMapped);
  static constexpr std::size_t kBlockBytes = 64 << 10;  // of leaves

  struct Leaf {  // never empty while in the index
    Range items[kLeafRanges];
    std::size_t used;
    Leaf* next;  // of those that are free
  };
  struct Index {
    Leaf** leaves = nullptr;
    std::size_t used = 0;
    std::size_t capacity = 0;
  };
  struct Place {
    std::size_t leaf, item;
  };

  const Index& Current() const { return indexes_[current_.load(std::memory_order_acquire)]; }
  Index& Other() { return indexes_[1 - current_.load(std::memory_order_relaxed)]; }
  void PublishOther() {
    current_.store(1 - current_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  // Of the first range that ends after `address`; behind the last leaf if there is none.
  Place PlaceAfter(Address address) const {
    const Index& index = Current();
    Leaf* const* const leaf = std::upper_bound(
        index.leaves, index.leaves + index.used, address,
        [](Address at, const Leaf* each) { return at < each->items[each->used - 1].to; });
    const auto number = static_cast<std::size_t>(leaf - index.leaves);
    if (number == index.used) return {number, 0};
    const Range* const items = (*leaf)->items;
    const Range* const range =
        std::upper_bound(items, items + (*leaf)->used, address,
                         [](Address at, const Range& each) { return at < each.to; });
    return {number, static_cast<std::size_t>(range - items)};
  }

  // Room for what Write adds, and for the ranges of that room itself. Without memory for it, what
  // is not in the ranges is searched for pointers: that is safe. What an index grows out of stays
  // mapped: it is less than the index.
  bool Reserve() {
    Range mapped[kMostMapped];
    std::size_t count = 0;
    const std::size_t wanted = Current().used + kRoom;
    for (int each = 0; each < 2 && (Current().capacity < wanted || Other().capacity < wanted);
         ++each) {
      Index& other = Other();
      if (other.capacity < wanted) {
        const std::size_t capacity = std::max<std::size_t>(512, 2 * wanted);
        auto* const leaves = static_cast<Leaf**>(Map(capacity * sizeof(Leaf*), mapped, count));
        if (leaves == nullptr) return false;
        other = {leaves, 0, capacity};
      }
      other.used = Current().used;
      std::copy_n(Current().leaves, other.used, other.leaves);
      PublishOther();
    }
    if (!HasFreeLeaves() && !MapLeaves(mapped, count)) return false;
    for (std::size_t i = 0; i < count; ++i) Write(mapped[i].from, mapped[i].to, mapped[i].owner);
    return true;
  }

  static void* Map(std::size_t bytes, Range* mapped, std::size_t& count) {
    void* const pages = SystemMap(bytes);
    const auto from = reinterpret_cast<Address>(pages);
    if (pages != nullptr) mapped[count++] = {from, PageUp(from + bytes), Owner::kAllocator};
    return pages;
  }

  bool HasFreeLeaves() const {
    const Leaf* leaf = free_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < kRoom; ++i, leaf = leaf->next)
      if (leaf == nullptr) return false;
    return true;
  }

  bool MapLeaves(Range* mapped, std::size_t& count) {
    auto* const leaves = static_cast<Leaf*>(Map(kBlockBytes, mapped, count));
    if (leaves == nullptr) return false;
    for (std::size_t i = 0; i < kBlockBytes / sizeof(Leaf); ++i) Free(&leaves[i]);
    return true;
  }

  // A fork may come between any two of these steps: the child can lose a leaf, and nothing more.
  void Free(Leaf* leaf) {
    leaf->next = free_.load(std::memory_order_relaxed);
    free_.store(leaf, std::memory_order_release);
  }
  Leaf* Take() {
    Leaf* const leaf = free_.load(std::memory_order_relaxed);
    free_.store(leaf->next, std::memory_order_release);
    return leaf;
  }

  void Write(Address from, Address to, Owner owner) {
    const Index& index = Current();
    // Neighbours that only touch are taken in as well, so that equal ones become one.
    Place first = PlaceAfter(from - 1);
    Place last = first;
    Range pieces[kPieces];
    std::size_t count = 0;
    if (last.leaf != index.used && At(last).from < from)
      pieces[count++] = {At(last).from, from, At(last).owner};
    if (owner != Owner::kNobody) pieces[count++] = {from, to, owner};
    for (; last.leaf != index.used && At(last).from <= to; last = After(last))
      if (At(last).to > to)
        pieces[count++] = {std::max(to, At(last).from), At(last).to, At(last).owner};
    MergeNeighbours(pieces, count);

    if (first.leaf == index.used && first.leaf != 0) {  // behind all
      --first.leaf;
      first.item = index.leaves[first.leaf]->used;
    }
    Range items[2 * kLeafRanges + kPieces];
    Range* end = items;
    if (first.leaf != index.used)
      end = std::copy_n(index.leaves[first.leaf]->items, first.item, end);
    end = std::copy_n(pieces, count, end);
    std::size_t next_leaf = last.leaf;  // the first that stays
    if (last.item != 0 || next_leaf == first.leaf) end = AddRest(last, next_leaf, end);
    // Few ranges do not stay alone.
    if (next_leaf != index.used && end - items < static_cast<std::ptrdiff_t>(kLeafRanges / 4))
      end = AddRest({next_leaf, 0}, next_leaf, end);
    Replace(first.leaf, next_leaf, items, static_cast<std::size_t>(end - items));
  }

  const Range& At(Place place) const { return Current().leaves[place.leaf]->items[place.item]; }
  Place After(Place place) const {
    if (place.item + 1 < Current().leaves[place.leaf]->used) return {place.leaf, place.item + 1};
    return {place.leaf + 1, 0};
  }

  // The ranges of a leaf from `place` on, if it is there; `next_leaf` becomes the one behind it.
  Range* AddRest(Place place, std::size_t& next_leaf, Range* end) const {
    if (place.leaf == Current().used) return end;
    const Leaf& leaf = *Current().leaves[place.leaf];
    next_leaf = place.leaf + 1;
    return std::copy(leaf.items + place.item, leaf.items + leaf.used, end);
  }

  // New leaves of `items` for those from `first` to `next`.
  void Replace(std::size_t first, std::size_t next, const Range* items, std::size_t count) {
    const Index& index = Current();
    Index& other = Other();
    Leaf** end = std::copy_n(index.leaves, first, other.leaves);
    const std::size_t leaves = (count + kLeafRanges - 1) / kLeafRanges;
    for (std::size_t i = 0; i < leaves; ++i) {
      Leaf* const leaf = Take();
      const std::size_t from = count * i / leaves, to = count * (i + 1) / leaves;
      std::copy(items + from, items + to, leaf->items);
      leaf->used = to - from;
      *end++ = leaf;
    }
    end = std::copy(index.leaves + next, index.leaves + index.used, end);
    other.used = static_cast<std::size_t>(end - other.leaves);
    PublishOther();
    for (std::size_t i = first; i < next; ++i) Free(Other().leaves[i]);
  }

  static void MergeNeighbours(Range* pieces, std::size_t& count) {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < count; ++i) {
      if (pieces[kept].to == pieces[i].from && pieces[kept].owner == pieces[i].owner)
        pieces[kept].to = pieces[i].to;
      else
        pieces[++kept] = pieces[i];
    }
    if (count != 0) count = kept + 1;
  }

  SpinLock lock_;
  Index indexes_[2];
  std::atomic<unsigned> current_ = 0;
  std::atomic<Leaf*> free_ = nullptr;
};

constinit inline Ranges ranges;

// Zeroed memory of the layer's own, in which no pointers are looked for; nullptr without any.
inline void* MapOwn(std::size_t bytes) {
  void* const pages = SystemMap(bytes);
  const auto from = reinterpret_cast<Address>(pages);
  if (pages != nullptr) ranges.Assign(from, PageUp(from + bytes), Owner::kAllocator);
  return pages;
}

inline void UnmapOwn(void* pages, std::size_t bytes) {
  const auto from = reinterpret_cast<Address>(pages);
  ranges.Assign(from, PageUp(from + bytes), Owner::kNobody);
  SystemUnmap(pages, bytes);
}

// A list in memory of the layer's own. Add says whether there was room.
template <typename T>
class OwnArray {
 public:
  bool Add(const T& value) {
    if (used_ == capacity_ && !Grow()) [[unlikely]]
      return false;
    items_[used_++] = value;
    return true;
  }
  void Clear() { used_ = 0; }
  void Shorten(std::size_t count) { used_ = count; }
  std::size_t Size() const { return used_; }
  bool Empty() const { return used_ == 0; }
  T& operator[](std::size_t index) { return items_[index]; }
  T Take() { return items_[--used_]; }
  T* begin() { return items_; }
  T* end() { return items_ + used_; }

  // The first memory of it, so that some can be added once there is no more.
  void Map() {
    if (capacity_ == 0) Grow();
  }

  // Gives memory back beyond the first `bytes`.
  void Trim(std::size_t bytes) {
    const std::size_t all = capacity_ * sizeof(T);
    if (all > bytes)
      syscall(SYS_madvise, reinterpret_cast<char*>(items_) + bytes, all - bytes, MADV_DONTNEED);
  }

 private:
  static constexpr std::size_t kFirstBytes = 1 << 16;

  __attribute__((noinline)) bool Grow() {
    const std::size_t bytes = capacity_ * sizeof(T);
    const std::size_t grown_bytes = bytes == 0 ? kFirstBytes : 2 * bytes;
    auto* const grown = static_cast<T*>(MapOwn(grown_bytes));
    if (grown == nullptr) return false;
    T* const before = items_;
    if (bytes != 0) memcpy(static_cast<void*>(grown), before, bytes);
    items_ = grown;
    capacity_ = grown_bytes / sizeof(T);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // a fork can come at any time
    if (bytes != 0) UnmapOwn(before, bytes);
    return true;
  }

  T* items_ = nullptr;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace tare
