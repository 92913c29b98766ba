#pragma once

#include <elf.h>

namespace tare::platform {

inline constexpr auto kElfMachine = EM_X86_64;

// Of a word that holds the address of a symbol: in the table of jumps, in that of addresses, and in
// data.
inline constexpr auto kJumpSlot = R_X86_64_JUMP_SLOT;
inline constexpr auto kAddressSlot = R_X86_64_GLOB_DAT;
inline constexpr auto kAddressInData = R_X86_64_64;

}  // namespace tare::platform
