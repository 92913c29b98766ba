// What the threads of a process share, and the record that each has for itself.

#pragma once

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "counters.hpp"
#include "inner.hpp"
#include "options.hpp"
#include "process_counters.hpp"
#include "ranges.hpp"
#include "slot_table.hpp"
#include "spin_lock.hpp"

namespace tare {

enum class BegunAgainBy : bool { kKernel, kStop };

struct Thread {
  volatile int depth = 0;               // above 0 in a critical section
  volatile bool must_park = false;      // asked to stop in a critical section
  volatile bool only_parked = false;    // the last system call was interrupted by a stop alone
  volatile unsigned handled = 0;        // handlers of the program that have begun to run
  volatile Address begun_again_at = 0;  // where a call that a stop interrupted last begins again
  volatile BegunAgainBy begun_again_by = BegunAgainBy::kKernel;
  const void* volatile semaphore = nullptr;  // the one that the thread waits for
  std::int64_t credit = 0;                   // bytes to allocate before RefillCredit
  std::int64_t granted = 0;                  // what the credit was at first
  Slot* slot = nullptr;
  Count clock_of_others = 0;    // bytes allocated by other threads, when last looked at
  Count published_freed = 0;    // of slot->freed_bytes, what the process knows
  Count published_ignored = 0;  // the same of slot->ignored_bytes
};

#define TARE_INITIAL_EXEC __attribute__((tls_model("initial-exec")))
constinit inline thread_local TARE_INITIAL_EXEC Thread thread;

struct Process {
  Inner inner;
  bool inner_is_glibc = false;
  Address inner_from = 0;  // where the object of the inner allocator lies
  Address inner_to = 0;
  Options options;
  FreeMode free = FreeMode::kHonour;  // before the environment can be read
  bool began = false;
  bool ready = false;                    // to collect
  std::atomic<bool> has_guards = false;  // pages within mappings that may not be read
  const char* counters_folder = nullptr;
  Header* header = nullptr;
  bool header_of_parent = false;
  pid_t pid = 0;
  pthread_key_t thread_end{};

  SpinLock slots_lock;
  SlotTable<Slot, kMostSlots> slots;

  SpinLock watched_lock;  // of what kernel.cpp keeps

  SpinLock collector;                       // held while one thread collects or sweeps
  std::atomic<unsigned> forks_waiting = 0;  // threads that wait for it to fork; they go first
  std::size_t threshold = 0;
  std::size_t wait_at = kNever;   // bytes at which a thread waits for the marker beside it
  std::size_t pause_at = kNever;  // bytes since the collection at which a pause is put in
  Count pauses = 0;               // put in so far
  std::atomic<bool> sweeps_by_marks = false;  // what has no mark is swept: what is new has one
  std::size_t last_marked_bytes = 0;
  std::size_t last_searched_bytes = 0;
  alignas(64) std::atomic<Count> allocated = 0;  // bytes that threads have made known, as also:
  std::atomic<Count> since_collection = 0;       // in quarantine of freed bytes
  std::atomic<std::int64_t> live = 0;
};

constinit inline Process process;
constinit inline Slot early_counts{};  // before the counters' file can be opened
constinit inline Slot lost_counts{};   // of threads that have no slot

// A critical section: in one the thread is not stopped, it stops at its end instead. What runs in
// a critical section may hold locks of the allocator or of the layer, a stopped thread does not.
void ParkNow();

inline void EnterCritical(Thread& t) {
  t.depth = t.depth + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

inline void LeaveCritical(Thread& t) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.depth = t.depth - 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (t.must_park) [[unlikely]]
    if (t.depth == 0) ParkNow();
}

// The same where it is known that the thread is in none: neither waits for the one before.
inline void EnterOutermost(Thread& t) {
  t.depth = 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

inline void LeaveOutermost(Thread& t) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.depth = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (t.must_park) [[unlikely]]
    ParkNow();
}

class Critical {
 public:
  Critical() : t_(thread) { EnterCritical(t_); }
  ~Critical() { LeaveCritical(t_); }
  Critical(const Critical&) = delete;
  Critical& operator=(const Critical&) = delete;

 private:
  Thread& t_;
};

// All signals wait: no handler of the program runs.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    const std::uint64_t all = ~std::uint64_t{0};
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before_, sizeof all);
  }
  ~SignalsBlocked() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  std::uint64_t before_ = 0;
};

inline Slot* TakeSlot() {
  const std::scoped_lock guard(process.slots_lock);
  Header* const header = OwnHeader(process);
  if (header == nullptr) return &lost_counts;
  if (Slot* const slot = process.slots.Take(SlotsOf(header), header->slots)) return slot;
  header->uncounted.fetch_add(1, std::memory_order_relaxed);
  return &lost_counts;
}

inline void GiveSlot(Slot* slot) {
  if (slot == &lost_counts || slot == &early_counts) return;
  const std::scoped_lock guard(process.slots_lock);
  process.slots.Give(SlotsOf(process.header), slot);
}

inline Count SumOfSlots(Count Slot::* member) {
  Count sum = lost_counts.*member;
  const Count used = process.header->slots.load(std::memory_order_relaxed);
  for (Count i = 0; i < used; ++i) sum += SlotsOf(process.header)[i].*member;
  return sum;
}

// What all threads have allocated, as far as this one knows.
inline Count Clock(const Thread& t) { return t.clock_of_others + t.slot->allocated_bytes; }

}  // namespace tare
