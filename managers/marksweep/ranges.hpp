// Who owns which part of the address space: a sorted list of ranges, and memory of the layer's own.

#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

  // Held by the functions below. Threads that can be stopped take it in critical sections only.
  SpinLock lock;

  void Assign(Address from, Address to, Owner owner) {
    const std::scoped_lock guard(lock);
    AssignLocked(from, to, owner);
  }

  Owner OwnerOf(Address address) {
    const std::scoped_lock guard(lock);
    const Range* const found = FirstEndingAfter(address);
    return found != End() && found->from <= address ? found->owner : Owner::kNobody;
  }

  // The first range that ends after `address`; End() if there is none. For the collector.
  const Range* FirstEndingAfter(Address address) const {
    return std::upper_bound(ranges_, ranges_ + used_, address,
                            [](Address at, const Range& range) { return at < range.to; });
  }
  const Range* End() const { return ranges_ + used_; }
  std::size_t Size() const { return used_; }
  const Range& operator[](std::size_t index) const { return ranges_[index]; }

 private:
  bool Reserve(std::size_t count) {
    if (count <= capacity_) return true;
    const std::size_t capacity = std::max<std::size_t>(512, 2 * capacity_);
    auto* const grown = static_cast<Range*>(SystemMap(capacity * sizeof(Range)));
    if (grown == nullptr) return false;
    Range* const before = ranges_;
    const std::size_t bytes = capacity_ * sizeof(Range);
    if (used_ != 0) memcpy(static_cast<void*>(grown), before, used_ * sizeof(Range));
    ranges_ = grown;
    capacity_ = capacity;
    const auto start = reinterpret_cast<Address>(grown);
    AssignLocked(start, start + capacity * sizeof(Range), Owner::kAllocator);
    if (before != nullptr) {
      const auto old = reinterpret_cast<Address>(before);
      AssignLocked(old, old + bytes, Owner::kNobody);
      SystemUnmap(before, bytes);
    }
    return true;
  }

  // Without memory for the list, what is not in it is searched for pointers: that is safe.
  void AssignLocked(Address from, Address to, Owner owner) {
    if (from >= to || !Reserve(used_ + 3)) return;
    // Neighbours that only touch are taken in as well, so that equal ones become one.
    Range* first = const_cast<Range*>(FirstEndingAfter(from - 1));
    Range* last = first;
    Range pieces[3];
    std::size_t count = 0;
    if (first != End() && first->from < from) pieces[count++] = {first->from, from, first->owner};
    if (owner != Owner::kNobody) pieces[count++] = {from, to, owner};
    for (; last != End() && last->from <= to; ++last)
      if (last->to > to) pieces[count++] = {std::max(to, last->from), last->to, last->owner};
    MergeNeighbours(pieces, count);
    const auto removed = static_cast<std::size_t>(last - first);
    memmove(static_cast<void*>(first + count), last,
            static_cast<std::size_t>(End() - last) * sizeof(Range));
    std::copy_n(pieces, count, first);
    used_ = used_ + count - removed;
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

  Range* ranges_ = nullptr;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
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
    if (bytes != 0) {
      memcpy(static_cast<void*>(grown), items_, bytes);
      UnmapOwn(items_, bytes);
    }
    items_ = grown;
    capacity_ = grown_bytes / sizeof(T);
    return true;
  }

  T* items_ = nullptr;
  std::size_t used_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace tare
