#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace tare::platform {

enum DwarfRegister : std::uint64_t { kFramePointer = 6, kStackPointer = 7, kReturnAddress = 16 };

__attribute__((always_inline)) inline Caller CallerOf(const void* frame) {
  const auto* const words = static_cast<const std::uintptr_t*>(frame);
  return {words[1], reinterpret_cast<std::uintptr_t>(words + 2), words[0]};
}

// The kernel's frame is the return address, and then a ucontext.
inline constexpr std::size_t kInterruptedFramePointer =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]);
inline constexpr std::size_t kInterruptedStackPointer =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]);
inline constexpr std::size_t kInterruptedInstruction =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]);

}  // namespace tare::platform
