#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace tare::platform {

enum DwarfRegister : std::uint64_t { kFramePointer = 29, kStackPointer = 31, kReturnAddress = 30 };

inline constexpr std::int64_t kReturnSlot = 0;
// Pointer authentication signs it in the bits above.
inline constexpr std::uintptr_t kAddressOfReturn = (std::uintptr_t{1} << 48) - 1;

__attribute__((always_inline)) inline Caller CallerHere() {
  return {reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) & kAddressOfReturn,
          reinterpret_cast<std::uintptr_t>(__builtin_dwarf_cfa()),
          *static_cast<const std::uintptr_t*>(__builtin_frame_address(0))};
}

// The frame record, to which the frame pointer points, may lie anywhere in the frame.
template <typename Find>
inline Caller CallerOf(const void*, Find find) {
  return find();
}

// mov x8, SYS_rt_sigreturn; svc 0. Nothing else says so.
inline bool ReturnsFromSignal(const void* code) {
  const auto* const words = static_cast<const std::uint32_t*>(code);
  return words[0] == 0xD2801168U && words[1] == 0xD4000001U;
}

// The kernel's frame is what it tells of the signal, and then a ucontext.
inline constexpr std::size_t kInterruptedContext = 128;
inline constexpr std::size_t kInterruptedFramePointer =
    kInterruptedContext + offsetof(ucontext_t, uc_mcontext.regs[29]);
inline constexpr std::size_t kInterruptedReturn =
    kInterruptedContext + offsetof(ucontext_t, uc_mcontext.regs[30]);
inline constexpr std::size_t kInterruptedStackPointer =
    kInterruptedContext + offsetof(ucontext_t, uc_mcontext.sp);
inline constexpr std::size_t kInterruptedInstruction =
    kInterruptedContext + offsetof(ucontext_t, uc_mcontext.pc);

}  // namespace tare::platform
