// The clock of events: as cheap as the machine has one, the same on all processors, ascending.

#pragma once

#include <sys/single_threaded.h>

#include <cstdint>

#include "system.hpp"
#include "tare/platform/counter.hpp"

namespace tare::recorder {

constinit inline bool counter_is_steady = false;

inline void ChooseClock() { counter_is_steady = platform::CounterIsSteady(); }

// What other threads see is to be in the order of these times: so the counter is read only when
// everything before is done, which costs some nanoseconds where there are other threads.
inline std::uint64_t Ticks() {
  if (!counter_is_steady) [[unlikely]]
    return Nanoseconds();
  if (__libc_single_threaded == 0) platform::FinishReads();
  return platform::ReadCounter();
}

struct BothClocks {
  std::uint64_t ticks, nanoseconds;
};

// The same moment by both, from which times of the one are made of the other. Where the thread is
// taken off its processor between two readings, they are taken anew.
inline BothClocks ReadBothClocks() {
  constexpr std::uint64_t kClose = 20'000;
  constexpr int kMostTries = 16;
  BothClocks closest{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int tries = 0; tries < kMostTries && least > kClose; ++tries) {
    const std::uint64_t before = Ticks(), nanoseconds = Nanoseconds(), apart = Ticks() - before;
    if (apart >= least) continue;
    least = apart;
    closest = {before + apart / 2, nanoseconds};
  }
  return closest;
}

}  // namespace tare::recorder
