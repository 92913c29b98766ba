#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace tare::platform {

enum DwarfRegister : std::uint64_t { kFramePointer = 6, kStackPointer = 7, kReturnAddress = 16 };

inline constexpr std::int64_t kReturnSlot = -1;
inline constexpr std::uintptr_t kAddressOfReturn = ~std::uintptr_t{0};

template <typename Find>
__attribute__((always_inline)) inline Caller CallerOf(const void* frame, Find) {
  const auto* const words = static_cast<const std::uintptr_t*>(frame);
  return {words[1], reinterpret_cast<std::uintptr_t>(words + 2), words[0]};
}

__attribute__((always_inline)) inline Caller CallerHere() {
  return CallerOf(__builtin_frame_address(0), nullptr);
}

// Its exception tables say so.
inline bool ReturnsFromSignal(const void*) { return false; }

// The kernel's frame is the return address, and then a ucontext.
inline constexpr std::size_t kInterruptedFramePointer =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]);
inline constexpr std::size_t kInterruptedStackPointer =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]);
inline constexpr std::size_t kInterruptedInstruction =
    offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]);
inline constexpr std::size_t kInterruptedReturn = 0;  // none: it is on the stack

}  // namespace tare::platform
