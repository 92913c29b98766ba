// Pages and addresses.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(memory.hpp)

namespace tare::platform {

constexpr std::uintptr_t PageDown(std::uintptr_t address) { return address & ~(kPageBytes - 1); }
constexpr std::uintptr_t PageUp(std::uintptr_t address) {
  return PageDown(address + kPageBytes - 1);
}

// Has the kernel supply pages in one go that would each cost a fault. False where it cannot: before
// Linux 5.14, or without memory or room on the disk.
inline bool Populate(void* pages, std::size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  return madvise(pages, bytes, kPopulateWrite) == 0;
}

}  // namespace tare::platform
