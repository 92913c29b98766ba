#pragma once

#include <elf.h>

namespace tare::platform {

inline constexpr auto kElfMachine = EM_AARCH64;

inline constexpr auto kJumpSlot = R_AARCH64_JUMP_SLOT;
inline constexpr auto kAddressSlot = R_AARCH64_GLOB_DAT;
inline constexpr auto kAddressInData = R_AARCH64_ABS64;

}  // namespace tare::platform
