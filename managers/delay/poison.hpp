// The pattern that fills an object in quarantine, so that a write to it is seen.

#pragma once

#include <cstdint>
#include <cstring>

#include "system.hpp"

namespace tare {

// As a pointer it is outside of every address space, so a use of what was read stops the program.
inline constexpr unsigned char kPoison = 0xDB;

inline void Fill(void* object, std::size_t bytes) { memset(object, kPoison, bytes); }

// Offset of the first byte that is not as Fill left it, or `bytes`.
inline std::size_t FirstChange(const void* object, std::size_t bytes) {
  const auto* const at = static_cast<const unsigned char*>(object);
  if (bytes == 0 || (at[0] == kPoison && memcmp(at, at + 1, bytes - 1) == 0)) return bytes;
  std::size_t offset = 0;
  while (at[offset] == kPoison) ++offset;
  return offset;
}

[[noreturn]] inline void ReportWrite(const void* object, std::size_t bytes, std::size_t offset) {
  Message message;
  message << "tare-delay: use after free: the object of " << bytes << " bytes at ";
  message.Hexadecimal(reinterpret_cast<std::uintptr_t>(object))
      << " was written to at byte " << offset << " after it had been freed";
  Abort(message);
}

}  // namespace tare
