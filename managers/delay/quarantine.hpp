// The quarantine: each thread has a list of objects that the program has freed. When their volume
// reaches the threshold, or the list is full, all of them are given to the allocator underneath.
// thread_record.hpp has the list, free.hpp what fills it, release.hpp what empties it. Here is what
// concerns the lists of all threads: memory that is short, observers, and forks.

#pragma once

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include <atomic>

#include "free.hpp"

namespace tare {

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
void ForOthers(Thread& own, Work work) {
  const ListsGuard guard([&own] { LetClaim(own); });
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
  process.slots.Clear();
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
