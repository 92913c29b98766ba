// The clock of events: as cheap as the machine has one, the same on all processors, ascending.

#pragma once

#include <sys/single_threaded.h>

#include <cstdint>

#include "system.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tare::recorder {

#if defined(__x86_64__)
constinit inline bool counter_is_steady = false;

// Whether the processor's counter runs at one speed, whatever the processor does.
inline void ChooseClock() {
  unsigned a, b, c, d = 0;
  constexpr unsigned kPowerLeaf = 0x80000007, kInvariant = 1u << 8;
  counter_is_steady = __get_cpuid(kPowerLeaf, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
}

// What other threads see is to be in the order of these times: so the counter is read only when
// everything before is done, which costs some nanoseconds where there are other threads.
inline std::uint64_t Ticks() {
  if (!counter_is_steady) [[unlikely]]
    return Nanoseconds();
  if (__libc_single_threaded == 0) __builtin_ia32_lfence();
  return __builtin_ia32_rdtsc();
}
#else
inline void ChooseClock() {}
inline std::uint64_t Ticks() { return Nanoseconds(); }
#endif

}  // namespace tare::recorder
