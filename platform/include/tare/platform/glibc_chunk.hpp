// The header of a chunk of glibc's malloc, which is the word before the object.

#pragma once

#include <cstddef>

namespace tare::platform {

// What glibc's malloc_usable_size says, without its look at the object behind: free will touch the
// word before the object in any case.
inline std::size_t SizeInHeader(const void* object) {
  constexpr std::size_t kFlags = 7, kMapped = 2;
  const std::size_t word = static_cast<const std::size_t*>(object)[-1];
  return (word & ~kFlags) - (word & kMapped ? 2 : 1) * sizeof word;
}

}  // namespace tare::platform
