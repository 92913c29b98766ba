// The clock of calls.

#pragma once

#include <cstdint>

#include "system.hpp"
#include "tare/platform/counter.hpp"

namespace tare::latency {

constinit inline bool counter_is_steady = false;

// The processor's counter; before it is read, everything before it is done. So what the program
// left under way is not counted as the allocator's, and what the allocator loads is waited for. A
// call may begin while the first reading ends: those cycles are within what the reading costs.
inline std::uint64_t Ticks() {
  if (!counter_is_steady) [[unlikely]]
    return Nanoseconds();
  platform::FinishReads();
  return platform::ReadCounter();
}

struct BothClocks {
  std::uint64_t ticks, nanoseconds;
};

// The same moment by both: of some tries the one that took least.
inline BothClocks ReadBothClocks() {
  BothClocks closest{};
  std::uint64_t least = ~std::uint64_t{0};
  for (int tries = 0; tries < 8; ++tries) {
    const std::uint64_t before = Ticks(), nanoseconds = Nanoseconds(), apart = Ticks() - before;
    if (apart >= least) continue;
    least = apart;
    closest = {before + apart / 2, nanoseconds};
  }
  return closest;
}

inline std::uint64_t LeastBetweenReadings() {
  std::uint64_t least = ~std::uint64_t{0};
  for (int tries = 0; tries < 512; ++tries) {
    const std::uint64_t before = Ticks(), apart = Ticks() - before;
    if (apart < least) least = apart;
  }
  return least;
}

}  // namespace tare::latency
