// Pages and addresses. A processor's part has
//   PageBytes      of the system that runs
//   kAddressBits   of the addresses that a program may have
//   AddressEnd     behind those that the kernel gives to who asks for none

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "tare/platform/processor.hpp"

namespace tare::platform {

// No system has smaller ones, and those of any are multiples of it: for what is counted or laid out
// alike on all of them.
inline constexpr std::size_t kLeastPageBytes = 4096;

}  // namespace tare::platform

#include TARE_OF_PROCESSOR(memory.hpp)

namespace tare::platform {

inline std::uintptr_t PageDown(std::uintptr_t address) { return address & ~(PageBytes() - 1); }
inline std::uintptr_t PageUp(std::uintptr_t address) { return PageDown(address + PageBytes() - 1); }

// Has the kernel supply the pages of these bytes in one go, which would each cost a fault. False
// where it cannot: before Linux 5.14, or without memory or room on the disk.
inline bool Populate(void* memory, std::size_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t from = PageDown(address), to = PageUp(address + bytes);
  return madvise(reinterpret_cast<void*>(from), to - from, kPopulateWrite) == 0;
}

}  // namespace tare::platform
