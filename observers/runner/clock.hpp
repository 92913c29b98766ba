// Nanoseconds of the kernel's steady clock.

#pragma once

#include <cstdint>
#include <ctime>

namespace tare::runner {

using Nanoseconds = std::int64_t;

inline constexpr Nanoseconds kMillisecond = 1'000'000;
inline constexpr Nanoseconds kSecond = 1000 * kMillisecond;
inline constexpr Nanoseconds kNever = INT64_MAX;

inline Nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

}  // namespace tare::runner
