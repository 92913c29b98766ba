#pragma once

#include <elf.h>

namespace tare::platform {

// Of a word that holds the address of a symbol: in the table of jumps, and in that of addresses.
inline constexpr auto kJumpSlot = R_X86_64_JUMP_SLOT;
inline constexpr auto kAddressSlot = R_X86_64_GLOB_DAT;

}  // namespace tare::platform
