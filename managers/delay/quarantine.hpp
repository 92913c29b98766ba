// The quarantine: each thread has a list of objects that the program has freed. When their volume
// reaches the threshold, or the list is full, all of them are given to the allocator underneath.
//
// Free runs at every free of the program, so it touches only its thread's own record and asks only
// for the object's size, and where the threshold is a byte not even for that. What has to be seldom
// is: time is read for one object in 64, the shared volume of scope=global grows in steps, and
// counters change when objects are released.
//
// A thread is `busy` while it changes its record. A signal handler that frees meanwhile only puts
// the object on a list, threaded through the objects themselves, which the interrupted call then
// works off. So a handler never enters the allocator in the midst of a free.

#pragma once

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "poison.hpp"
#include "process.hpp"

namespace tare {

inline constexpr std::size_t kSampleEvery = 64;        // objects, for the time in quarantine
inline constexpr std::uint32_t kTimeSmallEvery = 512;  // small collections, in the long run
inline constexpr std::size_t kSmallObjects = 16;       // fewer objects and bytes are small
inline constexpr std::size_t kSmallBytes = 64 << 10;
inline constexpr std::size_t kVolumeSteps = 64;  // of the shared volume, up to its threshold

enum class Stage : unsigned char { kFresh, kOpen, kClosed };

// In the first cache line is what a free touches.
struct alignas(64) Thread {
  void** position = nullptr;             // where the next object goes
  std::atomic<void**> limit = nullptr;   // where Free must think: full, or time for a sample
  std::size_t volume = 0;                // bytes held
  std::atomic<std::size_t> trigger = 0;  // volume at which Free must think
  Count moment = 0;                      // sum of `volume` as each object came in
  void* deferred = nullptr;              // objects freed by signal handlers while busy
  Slot* slot = nullptr;
  std::uint32_t until_timed = 1;  // small collections; 1: this one, always so without a slot
  std::atomic<bool> busy = false;
  std::atomic<bool> claimed = false;  // another thread, short of memory, takes the objects
  std::atomic<bool> taken = false;    // it did; the record must be emptied
  Stage stage = Stage::kFresh;

  void** base = nullptr;
  std::size_t capacity = 0;      // objects
  Count samples = 0;             // objects held whose time is known
  Count sample_begins = 0;       // sum of those times
  std::size_t published = 0;     // part of `volume` that is in the shared volume
  std::uint64_t epoch = 0;       // of scope=global
  std::uint32_t time_every = 1;  // how many small collections the timed one stands for
  Thread* next = nullptr;
  Thread* previous = nullptr;
};

constinit inline thread_local TARE_INITIAL_EXEC Thread thread;
inline pthread_key_t thread_end;

inline void BecomeBusy(Thread& t) {
  t.busy.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

template <typename T>
inline bool MustThink(const std::atomic<T>& bound, T value) {
  return value >= bound.load(std::memory_order_relaxed);
}

inline std::size_t Held(const Thread& t) { return static_cast<std::size_t>(t.position - t.base); }

// `objects` more come in before Free must think.
inline void SetLimit(Thread& t, std::size_t objects) {
  void** const end = t.base + t.capacity;
  const auto room = static_cast<std::size_t>(end - t.position);
  t.limit.store(t.position + std::min(room, objects), std::memory_order_relaxed);
}

inline std::size_t FirstTrigger() {
  const std::size_t size = process.options.size;
  return process.options.global ? std::max<std::size_t>(1, size / kVolumeSteps) : size;
}

inline void Empty(Thread& t) {
  void** const limit = t.limit.load(std::memory_order_relaxed);
  // A thread that failed to claim the objects has left no limit behind.
  const std::size_t left = limit < t.position ? 0 : static_cast<std::size_t>(limit - t.position);
  t.position = t.base;
  t.volume = 0;
  t.moment = 0;
  t.published = 0;
  t.samples = 0;
  t.sample_begins = 0;
  t.trigger.store(FirstTrigger(), std::memory_order_relaxed);
  SetLimit(t, left);
}

inline void Release(void* object) {
  if (process.options.poison) {
    const std::size_t bytes = process.inner.usable_size(object);
    const std::size_t change = FirstChange(object, bytes);
    if (change != bytes) ReportWrite(object, bytes, change);
  }
  process.inner.free(object);
}

inline void ReleaseAll(void** from, void** to) {
  if (process.options.fifo) {
    for (void** at = from; at != to; ++at) Release(*at);
  } else {
    for (void** at = to; at != from;) Release(*--at);
  }
}

// Runs `release`; the moment before, and in `pause` how long it took.
template <typename Work>
inline Count Time(Slot& slot, Work release, Count& pause) {
  const Count begin = Nanoseconds();
  release();
  pause = Nanoseconds() - begin;
  slot.longest_nanoseconds = std::max(slot.longest_nanoseconds, pause);
  return begin;
}

// The first small collections are timed, then ever fewer, because a look at the clock takes longer
// than many of them. One that is timed stands for those since the one before it.
template <typename Work>
inline Count TimeSmall(Thread& t, Work release) {
  Count pause = 0;
  const Count begin = Time(*t.slot, release, pause);
  t.slot->small_pauses.Add(pause, t.time_every);
  t.time_every = std::min(2 * t.time_every, kTimeSmallEvery);
  t.until_timed = t.time_every;
  return begin;
}

inline void CountHeld(const Thread& t, Slot& slot, std::size_t objects, Count released) {
  slot.objects += objects;
  slot.bytes += t.volume;
  slot.held_bytes += objects * t.volume - t.moment;
  slot.largest_bytes = std::max<Count>(slot.largest_bytes, t.volume);
  if (t.samples != 0) {
    slot.sampled_objects += t.samples;
    slot.sampled_nanoseconds += t.samples * (released ? released : Nanoseconds()) - t.sample_begins;
  }
}

// Gives all objects of `t` to the allocator, and counts. Leaves the record as it is. Which free of
// the program collects is not the program's doing, so an allocator that changes errno must not
// show in it.
inline void ReleaseObjects(Thread& t, Cause cause) {
  const std::size_t objects = Held(t);
  if (objects == 0) return;
  const KeepErrno keep;
  if (t.slot == nullptr) [[unlikely]]
    t.slot = TakeSlot();
  Slot& slot = *t.slot;
  const bool small = objects < kSmallObjects && t.volume < kSmallBytes;
  const auto release = [&t] { ReleaseAll(t.base, t.position); };
  // An object that reaches the threshold alone is on the list within its own free only.
  const bool at_once = objects == 1 && t.volume >= process.options.size;
  ++(at_once ? slot.released_at_once : slot.collections[cause]);
  Count begin = 0;
  if (!small) {
    Count pause = 0;
    begin = Time(slot, release, pause);
    slot.pauses.Add(pause, 1);
  } else if (--t.until_timed == 0) {
    begin = TimeSmall(t, release);
  } else {
    release();
  }
  if (!at_once) CountHeld(t, slot, objects, begin);
}

inline void Collect(Thread& t, Cause cause) {
  ReleaseObjects(t, cause);
  Empty(t);
}

// The bytes of `t` leave the shared volume without an end of the epoch.
inline void Withdraw(Thread& t) {
  if (process.options.global && t.published != 0 &&
      t.epoch == process.epoch.load(std::memory_order_relaxed))
    process.volume.fetch_sub(static_cast<std::int64_t>(t.published), std::memory_order_relaxed);
}

// Waits for a thread that has claimed the objects of `t`. `t` is busy, so no other can claim now.
inline void AwaitClaim(Thread& t) {
  while (t.claimed.load(std::memory_order_acquire)) sched_yield();
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
  if (Held(t) == t.capacity && !Grow(t)) {
    Withdraw(t);
    Collect(t, kCapacity);
  }
  ++t.samples;
  t.sample_begins += Nanoseconds();
  SetLimit(t, kSampleEvery);
  return true;
}

// The volume has reached a step of the shared one, or another thread has ended the epoch.
__attribute__((noinline)) inline void ThinkGlobally(Thread& t) {
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

inline void Hold(Thread& t, void* object, std::size_t bytes) {
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
  const bool alone = Held(t) == 0 && bytes >= process.options.size;
  if (alone && bytes < kSmallBytes && t.slot != nullptr) {
    t.samples = 0;  // one was of this object
    t.sample_begins = 0;
    ReleaseAtOnce(t, object);
  } else {
    Hold(t, object, bytes);
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
  if (unknown || (MustThink(t.limit, t.position) && !MakePlace(t))) [[unlikely]] {
    Pass(object);
  } else if constexpr (kGlobal) {
    Hold(t, object, bytes);
    if constexpr (kPoison) Fill(object, bytes);
    if (MustThink(t.trigger, t.volume) || t.epoch != process.epoch.load(std::memory_order_relaxed))
      ThinkGlobally(t);
  } else if constexpr (kPoison) {
    Hold(t, object, bytes);
    Fill(object, bytes);
    if (MustThink(t.trigger, t.volume)) Collect(t, kVolume);
  } else if (MustThink(t.trigger, t.volume + bytes)) {
    CollectWith(t, object, bytes);
  } else {
    Hold(t, object, bytes);
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

inline void Close(Thread& t) {
  if (t.stage != Stage::kOpen) return;
  {
    const ListsGuard guard;
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

// Does `work` while another thread, which may be asleep, cannot touch its objects. Its record is
// never locked by itself; so, after a claim, a barrier on all processors makes sure that it is
// either seen as busy or will see the claim. False when it was busy all the time.
template <typename Work>
bool Claim(Thread& other, Work work) {
  constexpr int kTries = 200;
  bool done = false;
  other.claimed.store(true, std::memory_order_release);
  for (int tries = 0; tries < kTries && !done; ++tries) {
    other.limit.store(nullptr, std::memory_order_relaxed);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) break;
    done = !other.busy.load(std::memory_order_acquire) &&
           other.limit.load(std::memory_order_relaxed) == nullptr;
    done ? work() : static_cast<void>(sched_yield());
  }
  other.claimed.store(false, std::memory_order_release);
  return done;
}

// Releases the objects of another thread, or makes it do so at its next free.
inline void Seize(Thread& other) {
  if (other.taken.load(std::memory_order_relaxed)) return;
  const bool seized = other.slot != nullptr &&  // one cannot be had under the lock
                      Claim(other, [&other] {
                        Withdraw(other);
                        ReleaseObjects(other, kMemory);
                        other.taken.store(true, std::memory_order_relaxed);
                      });
  if (!seized) other.trigger.store(0, std::memory_order_relaxed);
}

// `work(thread)` for all threads but `own` that may hold objects.
template <typename Work>
void ForOthers(const Thread& own, Work work) {
  const ListsGuard guard;
  syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  for (Thread* other = process.threads; other != nullptr; other = other->next)
    if (other != &own) work(*other);
}

// Memory is short: releases what all threads hold. False when called from inside of a Free.
inline bool GiveBack() {
  return WhileBusy([](Thread& own) {
    if (own.stage == Stage::kOpen) {
      Withdraw(own);
      Collect(own, kMemory);
    }
    ForOthers(own, Seize);
  });
}

// Calls `each` for every object that is held, but for those of a thread that is busy all the time.
inline void VisitHeld(void (*each)(void* object, std::size_t bytes, void* data), void* data) {
  if (process.options.size == 1) return;
  const auto visit = [each, data](const Thread& t) {
    for (void** at = t.base; at != t.position; ++at)
      each(*at, process.inner.usable_size(*at), data);
  };
  WhileBusy([visit](Thread& own) {
    visit(own);
    ForOthers(own, [visit](Thread& other) {
      if (!other.taken.load(std::memory_order_relaxed)) Claim(other, [&] { visit(other); });
    });
  });
}

// A fork waits until no thread has claimed the objects of another: its child would find them half
// released. A thread whose handler forks while it uses the lists has the lock, or waits for it, and
// nobody can have claimed its objects: it is busy.
inline void BeforeFork() {
  if (lists != Lists::kLeft) return;
  process.lock.lock();
  lists = Lists::kHeldForFork;
}

inline void AfterForkInParent() {
  if (lists != Lists::kHeldForFork) return;
  lists = Lists::kLeft;
  process.lock.unlock();
}

// In the child there is one thread. It keeps what it holds; what other threads held cannot be
// reached any more.
inline void AfterForkInChild() {
  Thread& t = thread;
  if (lists == Lists::kHeldForFork) lists = Lists::kLeft;
  process.lock.unlock();
  process.header_of_parent = process.header != nullptr;
  process.buffers = nullptr;
  process.buffers_kept = 0;
  process.ended_slots = 0;
  process.volume.store(static_cast<std::int64_t>(t.published), std::memory_order_relaxed);
  process.threads = t.stage == Stage::kOpen ? &t : nullptr;
  t.next = nullptr;
  t.previous = nullptr;
  t.claimed.store(false, std::memory_order_relaxed);
  t.slot = nullptr;
  t.until_timed = 1;
  t.time_every = 1;
}

// The handlers of an allocator that takes its locks for a fork are registered before these, so they
// run after BeforeFork: a thread that releases objects gets those locks.
inline void HandleForks() { pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild); }

// Begins the layer over `process.inner`.
inline void Begin(const Options& options, const char* counters_folder) {
  process.options = options;
  process.counters_folder = counters_folder;
  pthread_key_create(&thread_end, EndThread);
}

}  // namespace tare
