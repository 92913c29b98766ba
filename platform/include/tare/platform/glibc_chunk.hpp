// The header of a chunk of glibc's malloc, which is the word before the object.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::platform {

// What glibc's malloc_usable_size says, without its look at the object behind: free will touch the
// word before the object in any case.
inline std::size_t SizeInHeader(const void* object) {
  constexpr std::size_t kFlags = 7, kMapped = 2, kPage = 4096;
  const auto* const header = static_cast<const std::size_t*>(object) - 1;
  const std::size_t size = *header & ~kFlags;
  // Until glibc 2.42 a chunk that is mapped by itself ends with its last page; since 2.43 the
  // header of a next one has room there.
  const bool ends_with_page = (*header & kMapped) != 0 &&
                              (reinterpret_cast<std::uintptr_t>(header - 1) + size) % kPage == 0;
  return size - (ends_with_page ? 2 : 1) * sizeof *header;
}

}  // namespace tare::platform
