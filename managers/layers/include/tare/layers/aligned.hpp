// Objects of any alignment over a heap that knows one. Where an object lies in the heap's is kept
// before it, and found by a table; the heap's other objects are not changed, and cost a look at a
// counter. The table has a lock of its own.

#pragma once

#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "tare/layers/concepts.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::layers {

template <SizedHeap Super>
class Aligned : public Super {
 public:
  // `alignment` is a power of two.
  void* AllocateAligned(std::size_t alignment, std::size_t bytes) {
    if (alignment <= kAlignment) return Super::Allocate(bytes);
    const std::size_t before = sizeof(Place) + alignment;
    if (alignment > SIZE_MAX / 8 || bytes > SIZE_MAX / 8) return nullptr;
    auto* const whole = static_cast<char*>(Super::Allocate(before + bytes));
    if (whole == nullptr) return nullptr;
    const auto first = reinterpret_cast<std::uintptr_t>(whole) + sizeof(Place);
    char* const object = whole + sizeof(Place) + (RoundUp(first, alignment) - first);
    Insert(new (object - sizeof(Place)) Place{nullptr, whole});
    return object;
  }

  void Free(void* object) { Super::Free(MayBePlaced(object) ? Remove(object) : object); }

  std::size_t Size(void* object) {
    if (!MayBePlaced(object)) return Super::Size(object);
    char* const whole = Find(object);
    return Super::Size(whole) - static_cast<std::size_t>(static_cast<char*>(object) - whole);
  }

  bool Resize(void* object, std::size_t bytes)
    requires Resizable<Super>
  {
    return !(MayBePlaced(object) && Find(object) != object) && Super::Resize(object, bytes);
  }

  void BeforeFork()
    requires ForkSafe<Super>
  {
    lock_.lock();
    Super::BeforeFork();
  }
  void AfterFork()
    requires ForkSafe<Super>
  {
    Super::AfterFork();
    lock_.unlock();
  }

 private:
  // The aligned object follows.
  struct alignas(kAlignment) Place {
    Place* next;
    char* whole;
  };
  static constexpr std::size_t kListsPower = 12;

  Place*& ListOf(void* object) {
    constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
    return lists_[reinterpret_cast<std::uintptr_t>(object) * kGolden >> (64 - kListsPower)];
  }

  bool MayBePlaced(void* object) const {
    return placed_.load(std::memory_order_relaxed) != 0 &&
           reinterpret_cast<std::uintptr_t>(object) % (2 * kAlignment) == 0;
  }

  void Insert(Place* place) {
    const std::scoped_lock guard(lock_);
    Place*& list = ListOf(place + 1);
    place->next = list;
    list = place;
    placed_.fetch_add(1, std::memory_order_relaxed);
  }

  // What of the heap's holds the object, which may be the object itself.
  [[gnu::noinline]] char* Find(void* object) {
    const std::scoped_lock guard(lock_);
    for (Place* place = ListOf(object); place != nullptr; place = place->next)
      if (place + 1 == object) return place->whole;
    return static_cast<char*>(object);
  }

  [[gnu::noinline]] char* Remove(void* object) {
    const std::scoped_lock guard(lock_);
    for (Place** link = &ListOf(object); *link != nullptr; link = &(*link)->next) {
      if (*link + 1 != object) continue;
      char* const whole = (*link)->whole;
      *link = (*link)->next;
      placed_.fetch_sub(1, std::memory_order_relaxed);
      return whole;
    }
    return static_cast<char*>(object);
  }

  SpinLock lock_;
  std::atomic<std::size_t> placed_ = 0;
  std::array<Place*, std::size_t{1} << kListsPower> lists_ = {};
};

}  // namespace tare::layers
