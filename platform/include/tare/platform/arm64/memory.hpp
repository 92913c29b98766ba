#pragma once

#include <sys/auxv.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tare::platform {

// 4, 16 or 64 KiB, as the kernel was built.
inline std::size_t PageBytes() { return static_cast<std::size_t>(getpagesize()); }
inline constexpr unsigned kAddressBits = 52;  // 48 unless a program asks for more

// The first stack lies at the end. How many bits there are depends on how the kernel was built.
inline std::uintptr_t AddressEnd() {
  return std::bit_ceil(static_cast<std::uintptr_t>(getauxval(AT_RANDOM))) - PageBytes();
}

}  // namespace tare::platform
