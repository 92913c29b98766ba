// What guard.hpp offers, for reaps that cannot be hardened: they refuse the option.

#pragma once

#include "segregated.hpp"

namespace tare::reap {

inline constexpr std::size_t kGuardBytes = 0;

inline void SetGuard(void*, std::size_t) {}
inline std::size_t GuardedSize(void* object) { return Reap::UsableSize(object); }
inline void CheckGuard(void*) {}
inline void CheckOwner(const Reap&, void*) {}

}  // namespace tare::reap
