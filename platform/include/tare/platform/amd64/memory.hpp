#pragma once

#include <cstddef>

namespace tare::platform {

inline constexpr std::size_t kPageBytes = 4096;
inline constexpr unsigned kAddressBits = 47;  // of a program's half

}  // namespace tare::platform
