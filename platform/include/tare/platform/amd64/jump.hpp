#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::platform {

inline constexpr std::size_t kJumpBytes = 5, kRelayBytes = 16;
inline constexpr std::uintptr_t kJumpReach = std::uintptr_t{1} << 31;

// jmp relay
inline void WriteJump(unsigned char* bytes, std::uintptr_t at, std::uintptr_t relay) {
  const auto distance = static_cast<std::int32_t>(relay - (at + kJumpBytes));
  bytes[0] = 0xE9;
  memcpy(bytes + 1, &distance, sizeof distance);
}

// jmp *2(%rip), to the address that follows
inline void WriteRelay(unsigned char* bytes, const void* target) {
  constexpr unsigned char kCode[] = {0xFF, 0x25, 2, 0, 0, 0, 0xCC, 0xCC};
  memcpy(bytes, kCode, sizeof kCode);
  memcpy(bytes + sizeof kCode, &target, sizeof target);
}

}  // namespace tare::platform
