// The calls that map memory, so that the allocator's pages are told from the program's.

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "next.hpp"
#include "process.hpp"
#include "tare/platform/exported.hpp"

namespace tare {

bool IsAllocator(const void* caller);

namespace {

Address AddressOf(const void* address) { return reinterpret_cast<Address>(address); }

void* Map(void* address, std::size_t bytes, int protection, int flags, int file, long offset,
          const void* caller) {
  const Owner owner = IsAllocator(caller) ? Owner::kAllocator : Owner::kProgram;
  const Critical critical;
  void* const pages =
      reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
  if (pages != MAP_FAILED) ranges.Assign(AddressOf(pages), PageUp(AddressOf(pages) + bytes), owner);
  return pages;
}

}  // namespace
}  // namespace tare

using std::size_t;

EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                  long offset) noexcept {
  return tare::Map(address, bytes, protection, flags, file, offset, __builtin_return_address(0));
}
EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                    long offset) noexcept {
  return tare::Map(address, bytes, protection, flags, file, offset, __builtin_return_address(0));
}

EXPORT int munmap(void* address, size_t bytes) noexcept {
  const tare::Critical critical;
  const tare::Address from = tare::AddressOf(address);
  if (from == tare::PageDown(from))
    tare::ranges.Assign(from, tare::PageUp(from + bytes), tare::Owner::kNobody);
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

EXPORT void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list rest;
  va_start(rest, flags);
  void* const wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  const tare::Critical critical;
  const tare::Address from = tare::AddressOf(address);
  const tare::Owner owner = tare::ranges.OwnerOf(from);
  void* const moved =
      reinterpret_cast<void*>(syscall(SYS_mremap, address, bytes, new_bytes, flags, wanted));
  if (moved == MAP_FAILED) return moved;
  if ((flags & 4) == 0)  // MREMAP_DONTUNMAP
    tare::ranges.Assign(from, tare::PageUp(from + bytes), tare::Owner::kNobody);
  const tare::Address to = tare::AddressOf(moved);
  tare::ranges.Assign(to, tare::PageUp(to + new_bytes), owner);
  return moved;
}

EXPORT int madvise(void* address, size_t bytes, int advice) noexcept {
  constexpr int kGuardInstall = 102;
  if (advice == kGuardInstall) tare::process.has_guards = true;
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

// Memory that the program takes at the end of its data segment.
EXPORT void* sbrk(std::intptr_t more) noexcept {
  const bool allocator = tare::IsAllocator(__builtin_return_address(0));
  const tare::Critical critical;
  void* const before = tare::Next<"sbrk", void*(std::intptr_t)>::Call(more);
  if (more > 0 && before != reinterpret_cast<void*>(-1))
    tare::ranges.Assign(tare::AddressOf(before),
                        tare::AddressOf(before) + static_cast<tare::Address>(more),
                        allocator ? tare::Owner::kAllocator : tare::Owner::kProgram);
  return before;
}
