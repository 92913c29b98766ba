// Pauses that are put in midway between two collections, of a length that is asked for: controls,
// which tell what a collection does to a program from what any pause does. In turn the thread that
// allocates spins, sleeps, or stops all others and spins.

#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "collector.hpp"
#include "process.hpp"
#include "world.hpp"

namespace tare {

inline void SpinUntil(Count end) {
  while (Nanoseconds() < end) continue;
}

// Not by the C library's call, which is one of those that are begun again here.
inline void SleepFor(Count nanoseconds) {
  constexpr Count kSecond = 1'000'000'000;
  const timespec wanted{static_cast<time_t>(nanoseconds / kSecond),
                        static_cast<long>(nanoseconds % kSecond)};
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &wanted, nullptr);
}

inline bool StopUntil(Count end) {
  EnterCritical(thread);
  const bool stopped = StopWorld();
  if (stopped) {
    SpinUntil(end);
    StartWorld();
  }
  thread.must_park = false;
  LeaveCritical(thread);
  return stopped;
}

// With the collector's lock held and signals blocked.
inline void PauseLocked() {
  constexpr RecordKind kTurns[] = {kSpun, kSlept, kStopped};
  const RecordKind kind = kTurns[process.pauses++ % 3];
  const Count length = process.options.pause_nanoseconds;
  const Count begin_cpu = ProcessorNanoseconds(), begin = Nanoseconds();
  if (kind == kSpun) SpinUntil(begin + length);
  if (kind == kSlept) SleepFor(length);
  if (kind == kStopped && !StopUntil(begin + length)) return;
  const Count end = Nanoseconds();
  AddRecord({.begin = begin,
             .end = end,
             .active_pages_bytes = metadata.ActivePages() * kPageBytes,
             .kind = kind,
             .released = end,
             .cpu_nanoseconds = ProcessorNanoseconds() - begin_cpu,
             .thread = static_cast<Count>(ThreadId())});
}

__attribute__((noinline)) inline void PauseOnPurpose() {
  if (getpid() != process.pid) return;
  const SignalsBlocked blocked;
  if (!process.collector.try_lock()) return;
  // Another thread may have paused since this one saw that it is time.
  if (process.pause_at != kNever) {
    process.pause_at = kNever;
    PauseLocked();
  }
  process.collector.unlock();
}

}  // namespace tare
