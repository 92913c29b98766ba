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

}  // namespace tare::recorder
