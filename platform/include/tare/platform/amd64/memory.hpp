#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::platform {

constexpr std::size_t PageBytes() { return kLeastPageBytes; }
inline constexpr unsigned kAddressBits = 47;  // of a program's half
constexpr std::uintptr_t AddressEnd() { return (std::uintptr_t{1} << kAddressBits) - PageBytes(); }

}  // namespace tare::platform
