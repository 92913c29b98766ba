#pragma once

#include <cstdint>

namespace tare::platform {

inline bool CounterIsSteady() { return false; }  // its own is too coarse to order events
inline std::uint64_t ReadCounter() { return 0; }
inline void FinishReads() {}

}  // namespace tare::platform
