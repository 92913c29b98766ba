#pragma once

#include <cpuid.h>

#include <cstdint>

namespace tare::platform {

inline bool CounterIsSteady() {
  unsigned a, b, c, d = 0;
  constexpr unsigned kPowerLeaf = 0x80000007, kInvariant = 1u << 8;
  return __get_cpuid(kPowerLeaf, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
}

inline std::uint64_t ReadCounter() { return __builtin_ia32_rdtsc(); }

inline void FinishReads() { __builtin_ia32_lfence(); }

}  // namespace tare::platform
