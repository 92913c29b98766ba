#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::platform {

inline constexpr std::size_t kJumpBytes = 4, kRelayBytes = 16;
inline constexpr std::uintptr_t kJumpReach = std::uintptr_t{1} << 27;

// b relay
inline void WriteJump(unsigned char* bytes, std::uintptr_t at, std::uintptr_t relay) {
  const auto words = static_cast<std::uint32_t>((relay - at) >> 2);
  const std::uint32_t code = 0x14000000U | (words & 0x03FFFFFFU);
  memcpy(bytes, &code, sizeof code);
}

// ldr x16, 8; br x16, to the address that follows
inline void WriteRelay(unsigned char* bytes, const void* target) {
  constexpr std::uint32_t kCode[] = {0x58000050U, 0xD61F0200U};
  memcpy(bytes, kCode, sizeof kCode);
  memcpy(bytes + sizeof kCode, &target, sizeof target);
}

}  // namespace tare::platform
