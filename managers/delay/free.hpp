// What stands for free. It runs at every free of the program, so it touches only its thread's own
// record and asks only for the object's size, and where the threshold is a byte not even for that.
// What has to be seldom is: time is read for one object in 64, the shared volume of scope=global
// grows in steps, and counters change when objects are released.

#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "release.hpp"

namespace tare {

inline constexpr std::size_t kSampleEvery = 64;  // objects, for the time in quarantine

// The bytes of `t` leave the shared volume without an end of the epoch.
inline void Withdraw(Thread& t) {
  if (process.options.global && t.published != 0 &&
      t.epoch == process.epoch.load(std::memory_order_relaxed))
    process.volume.fetch_sub(static_cast<std::int64_t>(t.published), std::memory_order_relaxed);
}

// Waits for a thread that has claimed the objects of `t`. `t` is busy, so no other can claim now;
// but idle as it waits, for the one that has may be waiting for that.
inline void AwaitClaim(Thread& t) {
  while (t.claimed.load(std::memory_order_acquire)) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    t.busy.store(false, std::memory_order_release);
    sched_yield();
    BecomeBusy(t);
  }
  if (!t.taken.load(std::memory_order_relaxed)) return;
  t.taken.store(false, std::memory_order_relaxed);
  Empty(t);
}

inline bool Open(Thread& t) {
  t.base = TakeBuffer();
  if (t.base == nullptr) return false;
  t.capacity = FirstBufferBytes() / sizeof(void*);
  t.position = t.base;
  t.epoch = process.epoch.load(std::memory_order_relaxed);
  t.slot = TakeSlot();
  t.stage = Stage::kOpen;
  Empty(t);
  {
    const ListsGuard guard;
    t.next = process.threads;
    if (t.next != nullptr) t.next->previous = &t;
    process.threads = &t;
  }
  pthread_setspecific(thread_end, &t);
  return true;
}

inline bool Grow(Thread& t) {
  if (process.options.buffer != 0) return false;
  const std::size_t bytes = t.capacity * sizeof(void*);
  void* const grown = mremap(t.base, bytes, 2 * bytes, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return false;
  madvise(grown, 2 * bytes, MADV_NOHUGEPAGE);
  t.position = static_cast<void**>(grown) + t.capacity;
  t.base = static_cast<void**>(grown);
  t.capacity *= 2;
  return true;
}

// Makes a place for one more object; false when the thread can hold none.
__attribute__((noinline)) inline bool MakePlace(Thread& t) {
  const KeepErrno keep;
  AwaitClaim(t);
  if (t.stage == Stage::kClosed || (t.stage == Stage::kFresh && !Open(t))) return false;
  if (Retained(t) == t.capacity && !Grow(t)) {
    Withdraw(t);
    Collect(t, kCapacity);
  }
  ++t.samples;
  t.sample_begins += Nanoseconds();
  SetLimit(t, kSampleEvery);
  return true;
}

// The volume has reached a step of the shared one, or another thread has ended the epoch.
__attribute__((noinline)) inline void AddToSharedVolume(Thread& t) {
  const std::uint64_t epoch = process.epoch.load(std::memory_order_relaxed);
  if (t.epoch == epoch && t.trigger.load(std::memory_order_relaxed) != 0) {
    const auto more = static_cast<std::int64_t>(t.volume - t.published);
    const auto size = static_cast<std::int64_t>(process.options.size);
    t.published = t.volume;
    if (process.volume.fetch_add(more, std::memory_order_relaxed) + more < size) {
      t.trigger.store(t.volume + FirstTrigger(), std::memory_order_relaxed);
      return;
    }
    process.volume.store(0, std::memory_order_relaxed);
    process.epoch.fetch_add(1, std::memory_order_relaxed);
  }
  t.epoch = process.epoch.load(std::memory_order_relaxed);
  Collect(t, kVolume);
}

// In a signal handler, which another handler can interrupt.
inline void Defer(Thread& t, void* object) {
  void* before = t.deferred;
  do memcpy(object, &before, sizeof before);
  while (!__atomic_compare_exchange_n(&t.deferred, &before, object, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
}

void WorkOffDeferred(Thread& t);

inline void BecomeIdle(Thread& t) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.busy.store(false, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (t.deferred != nullptr) [[unlikely]]
    WorkOffDeferred(t);
}

inline void Pass(void* object) {
  if (process.header != nullptr && !process.header_of_parent)
    process.header->passed_objects.fetch_add(1, std::memory_order_relaxed);
  process.inner.free(object);
}

inline void Retain(Thread& t, void* object, std::size_t bytes) {
  *t.position++ = object;
  t.volume += bytes;
  t.moment += t.volume;
}

__attribute__((noinline)) inline void ReleaseTimed(Thread& t, void* object) {
  TimeSmall(t, [object] { process.inner.free(object); });
}

// A collection of one object that is on no list.
inline void ReleaseAtOnce(Thread& t, void* object) {
  ++t.slot->released_at_once;
  if (--t.until_timed == 0) [[unlikely]]
    ReleaseTimed(t, object);
  else
    process.inner.free(object);
}

// `object` reaches the threshold, alone or with what is held.
__attribute__((noinline)) inline void CollectWith(Thread& t, void* object, std::size_t bytes) {
  const bool alone = Retained(t) == 0 && bytes >= process.options.size;
  if (alone && bytes < kSmallBytes && t.slot != nullptr) {
    t.samples = 0;  // one was of this object
    t.sample_begins = 0;
    ReleaseAtOnce(t, object);
  } else {
    Retain(t, object, bytes);
    Collect(t, kVolume);
  }
}

// What stands for free: `object` is not nullptr.
template <bool kGlobal, bool kPoison, bool kHeader>
void Free(void* object) {
  Thread& t = thread;
  if (t.busy.load(std::memory_order_relaxed)) [[unlikely]]
    return Defer(t, object);
  BecomeBusy(t);
  const std::size_t bytes = kHeader ? SizeInHeader(object) : process.inner.usable_size(object);
  // Of size 0 is what tcmalloc says before its constructor has run; its fill could not be checked.
  const bool unknown = kPoison && bytes == 0;
  if (unknown || (IsReached(t.limit, t.position) && !MakePlace(t))) [[unlikely]] {
    Pass(object);
  } else if constexpr (kGlobal) {
    Retain(t, object, bytes);
    if constexpr (kPoison) Fill(object, bytes);
    if (IsReached(t.trigger, t.volume) || t.epoch != process.epoch.load(std::memory_order_relaxed))
      AddToSharedVolume(t);
  } else if constexpr (kPoison) {
    Retain(t, object, bytes);
    Fill(object, bytes);
    if (IsReached(t.trigger, t.volume)) Collect(t, kVolume);
  } else if (IsReached(t.trigger, t.volume + bytes)) {
    CollectWith(t, object, bytes);
  } else {
    Retain(t, object, bytes);
  }
  BecomeIdle(t);
}

// Whether a thread that is about to free has, or gets, a slot to count in.
inline bool CanCount(Thread& t) {
  AwaitClaim(t);
  if (t.stage == Stage::kClosed || (t.stage == Stage::kFresh && !Open(t))) return false;
  if (t.slot == nullptr) t.slot = TakeSlot();
  return true;
}

// The free of FreeAtOnce that is timed: of one object in some, of the first of a thread or of a
// forked process, which has no slot yet, and of each that cannot be counted.
__attribute__((noinline)) inline void FreeAtOnceTimed(Thread& t, void* object) {
  const KeepErrno keep;
  if (CanCount(t)) return ReleaseAtOnce(t, object);
  Pass(object);
}

// Free where every object reaches the threshold alone, because that is a byte. There is no list,
// so nobody needs to know the size of an object.
inline void FreeAtOnce(void* object) {
  Thread& t = thread;
  if (t.busy.load(std::memory_order_relaxed)) [[unlikely]]
    return Defer(t, object);
  BecomeBusy(t);
  if (t.until_timed == 1) [[unlikely]]
    FreeAtOnceTimed(t, object);
  else
    ReleaseAtOnce(t, object);
  BecomeIdle(t);
}

using FreeFunction = void (*)(void*);

template <bool kHeader>
FreeFunction ChooseFree(const Options& options) {
  if (options.global)
    return options.poison ? Free<true, true, kHeader> : Free<true, false, kHeader>;
  return options.poison ? Free<false, true, kHeader> : Free<false, false, kHeader>;
}

inline FreeFunction ChooseFree(const Options& options) {
  if (options.size == 1 && !options.poison) return FreeAtOnce;
  const bool header = std::atomic_ref(process.inner.size_in_header).load(std::memory_order_relaxed);
  return header ? ChooseFree<true>(options) : ChooseFree<false>(options);
}

// Each exchange is one instruction, so a handler's object is on one list or the other.
__attribute__((noinline)) inline void WorkOffDeferred(Thread& t) {
  const FreeFunction free_object = ChooseFree(process.options);
  void* list = __atomic_exchange_n(&t.deferred, nullptr, __ATOMIC_RELAXED);
  while (list != nullptr) {
    void* next;
    memcpy(&next, list, sizeof next);
    free_object(std::exchange(list, next));
  }
}

// `work(t)` on the record of this thread, as Free would do it. False inside of a Free.
template <typename Work>
bool WhileBusy(Work work) {
  Thread& t = thread;
  if (t.busy.load(std::memory_order_relaxed)) return false;
  const KeepErrno keep;
  BecomeBusy(t);
  AwaitClaim(t);
  work(t);
  BecomeIdle(t);
  return true;
}

// Of a thread that is busy and waits for the lists: who has them may want to claim its objects, and
// would try for long in vain.
inline void LetClaim(Thread& t) {
  BecomeIdle(t);
  sched_yield();
  BecomeBusy(t);
  AwaitClaim(t);
}

inline void Close(Thread& t) {
  if (t.stage != Stage::kOpen) return;
  {
    const ListsGuard guard([&t] { LetClaim(t); });
    (t.previous != nullptr ? t.previous->next : process.threads) = t.next;
    if (t.next != nullptr) t.next->previous = t.previous;
  }
  Withdraw(t);
  Collect(t, kExit);
  GiveSlot(std::exchange(t.slot, nullptr));
  GiveBuffer(std::exchange(t.base, nullptr), t.capacity * sizeof(void*));
  t.position = nullptr;
  t.limit.store(nullptr, std::memory_order_relaxed);
  t.until_timed = 1;
  t.stage = Stage::kClosed;
}

// The end of a thread, and for the one that ends it, of the process. What it frees from now on
// goes straight to the allocator.
inline void CloseThisThread() {
  WhileBusy([](Thread& t) { Close(t); });
}

inline void EndThread(void*) { CloseThisThread(); }

}  // namespace tare
