// Leads a function elsewhere: its first bytes become a jump to a relay that lies near, and that
// jumps to any address.

#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tare/platform/memory.hpp"
#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(jump.hpp)

namespace tare::platform {

// A page of relays within reach of a loaded object's code. Nothing here allocates; no thread may
// run that code meanwhile.
class Relays {
 public:
  static constexpr std::size_t kMost = kLeastPageBytes / kRelayBytes;

  // False where there is no page left near.
  bool Open(std::uintptr_t start, std::uintptr_t end) {
    constexpr std::uintptr_t kStep = 1 << 20;
    for (std::uintptr_t away = 2 * kStep; away + (end - start) < kJumpReach; away += kStep)
      if ((start > away && Map(PageDown(start - away))) || Map(PageUp(end + away))) return true;
    return false;
  }

  // False where the kernel does not let code be changed, or all relays are taken.
  bool Lead(std::uintptr_t function, const void* target) {
    if (used_ == kMost) return false;
    const std::uintptr_t relay = page_ + used_ * kRelayBytes;
    unsigned char bytes[kRelayBytes];
    WriteRelay(bytes, target);
    if (!Write(relay, bytes, sizeof bytes)) return false;
    ++used_;
    unsigned char jump[kJumpBytes];
    WriteJump(jump, function, relay);
    return Write(function, jump, sizeof jump);
  }

 private:
  bool Map(std::uintptr_t at) {
    constexpr int kNoReplace = 0x100000;  // MAP_FIXED_NOREPLACE, which older headers lack
    const long found = syscall(SYS_mmap, at, PageBytes(), PROT_READ | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS | kNoReplace, -1, 0);
    if (found == static_cast<long>(at)) {
      page_ = at;
      return true;
    }
    if (found != -1) syscall(SYS_munmap, found, PageBytes());
    return false;
  }

  static bool Write(std::uintptr_t at, const unsigned char* bytes, std::size_t count) {
    void* const page = reinterpret_cast<void*>(PageDown(at));
    const std::size_t length = PageUp(at + count) - PageDown(at);
    if (mprotect(page, length, PROT_READ | PROT_WRITE) != 0) return false;
    memcpy(reinterpret_cast<void*>(at), bytes, count);
    const bool is_code_again = mprotect(page, length, PROT_READ | PROT_EXEC) == 0;
    auto* const first = reinterpret_cast<char*>(at);
    __builtin___clear_cache(first, first + count);
    return is_code_again;
  }

  std::uintptr_t page_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tare::platform
