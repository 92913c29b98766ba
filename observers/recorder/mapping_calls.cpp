// The calls by which a program maps memory: who made a mapping is noted for the snapshots, and what
// is known of a stack is forgotten when that goes.

#include <sys/mman.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>

#include "next.hpp"
#include "snapshots/noted.hpp"
#include "stacks.hpp"
#include "tare/platform/exported.hpp"

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char etext[] __attribute__((visibility("hidden")));

namespace {

using std::size_t;
using tare::Next;
using tare::recorder::NoteGone;

using NextMmap = Next<"mmap", void*(void*, size_t, int, int, int, off_t)>;
using NextMremap = Next<"mremap", void*(void*, size_t, size_t, int, void*)>;
using NextMunmap = Next<"munmap", int(void*, size_t)>;
using NextMprotect = Next<"mprotect", int(void*, size_t, int)>;

void NoteMade(const void* pages, size_t bytes, bool has_file, const void* call) {
  if (pages == MAP_FAILED) return;
  const auto address = reinterpret_cast<std::uint64_t>(pages);
  const bool is_own = call >= __ehdr_start && call < etext;
  if (!is_own)
    tare::recorder::snapshot::NoteMapping(address, bytes, call);
  else if (!has_file)
    tare::recorder::snapshot::NoteOwn(address, bytes);
}

}  // namespace

EXPORT void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
                  off_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) NoteGone(at, bytes);
  void* const pages = NextMmap::Call(at, bytes, access, flags, fd, offset);
  NoteMade(pages, bytes, (flags & MAP_ANONYMOUS) == 0, __builtin_return_address(0));
  return pages;
}
EXPORT void* mmap64(void* at, std::size_t bytes, int access, int flags, int fd,
                    off64_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) NoteGone(at, bytes);
  void* const pages = NextMmap::Call(at, bytes, access, flags, fd, offset);
  NoteMade(pages, bytes, (flags & MAP_ANONYMOUS) == 0, __builtin_return_address(0));
  return pages;
}
EXPORT void* mremap(void* from, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const to = flags & MREMAP_FIXED ? va_arg(more, void*) : nullptr;
  va_end(more);
  NoteGone(from, old_bytes);
  if (to != nullptr) NoteGone(to, bytes);
  void* const pages = NextMremap::Call(from, old_bytes, bytes, flags, to);
  NoteMade(pages, bytes, false, __builtin_return_address(0));
  return pages;
}
EXPORT int munmap(void* pages, std::size_t bytes) noexcept {
  NoteGone(pages, bytes);
  return NextMunmap::Call(pages, bytes);
}
EXPORT int mprotect(void* pages, std::size_t bytes, int access) noexcept {
  if ((access & PROT_READ) == 0) NoteGone(pages, bytes);
  return NextMprotect::Call(pages, bytes, access);
}
