#pragma once

#include <cstddef>

namespace tare::platform {

inline constexpr std::size_t kPageBytes = 4096;  // of kernels that are built so
inline constexpr unsigned kAddressBits = 48;

}  // namespace tare::platform
