// Who owns which part of the address space: a sorted list of ranges, and memory of the layer's own.
//
// The list is not changed in its place: the new one is written beside it, and then stands for it.
// So the child of a fork has a whole one, whatever other threads were at.

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

namespace tare {

using Address = std::uintptr_t;

inline constexpr std::size_t kPageBytes = 4096;
inline Address PageDown(Address address) { return address & ~(kPageBytes - 1); }
inline Address PageUp(Address address) { return PageDown(address + kPageBytes - 1); }

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

  // The first range that ends after `address`; End() if there is none. For the collector.
  const Range* FirstEndingAfter(Address address) const {
    const List& list = Current();
    return std::upper_bound(list.items, list.items + list.used, address,
                            [](Address at, const Range& range) { return at < range.to; });
  }
  const Range* End() const { return Current().items + Current().used; }
  std::size_t Size() const { return Current().used; }
  const Range& operator[](std::size_t index) const { return Current().items[index]; }

  void AfterForkInChild() { lock_.unlock(); }

 private:
  struct List {
    Range* items = nullptr;
    std::size_t used = 0;
    std::size_t capacity = 0;
  };

  const List& Current() const { return lists_[current_.load(std::memory_order_acquire)]; }
  List& Other() { return lists_[1 - current_.load(std::memory_order_relaxed)]; }

  // Room for what Write adds. Without memory for the list, what is not in it is searched for
  // pointers: that is safe. What a list grows out of stays mapped: it is less than the list.
  bool Reserve() {
    while (Other().capacity < Current().used + kPieces) {
      const std::size_t capacity = std::max<std::size_t>(512, 2 * (Current().used + kPieces));
      const std::size_t bytes = capacity * sizeof(Range);
      auto* const items = static_cast<Range*>(SystemMap(bytes));
      if (items == nullptr) return false;
      Other() = {items, 0, capacity};
      const auto from = reinterpret_cast<Address>(items);
      Write(from, PageUp(from + bytes), Owner::kAllocator);
    }
    return true;
  }

  void Write(Address from, Address to, Owner owner) {
    // Neighbours that only touch are taken in as well, so that equal ones become one.
    const Range* const first = FirstEndingAfter(from - 1);
    const Range* last = first;
    Range pieces[kPieces];
    std::size_t count = 0;
    if (first != End() && first->from < from) pieces[count++] = {first->from, from, first->owner};
    if (owner != Owner::kNobody) pieces[count++] = {from, to, owner};
    for (; last != End() && last->from <= to; ++last)
      if (last->to > to) pieces[count++] = {std::max(to, last->from), last->to, last->owner};
    MergeNeighbours(pieces, count);
    List& other = Other();
    Range* end = std::copy<const Range*>(Current().items, first, other.items);
    end = std::copy_n(pieces, count, end);
    end = std::copy(last, End(), end);
    other.used = static_cast<std::size_t>(end - other.items);
    current_.store(1 - current_.load(std::memory_order_relaxed), std::memory_order_release);
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

  static constexpr std::size_t kPieces = 3;

  SpinLock lock_;
  List lists_[2];
  std::atomic<unsigned> current_ = 0;
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
