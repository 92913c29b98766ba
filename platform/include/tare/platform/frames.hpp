// Where a stack has what leads from a frame to the one that called it. A processor's part has
//   DwarfRegister      kFramePointer, kStackPointer, kReturnAddress: their numbers in DWARF
//   kReturnSlot        where calls put return addresses, in words from the CFA; 0: functions do it
//   kAddressOfReturn   those bits of a saved return address that are the address
//   CallerHere         of the function in which it is inlined, which has a frame of its own
//   CallerOf           of the function whose __builtin_frame_address(0) is given; where that does
//   not
//                      tell it, `find` does
//   ReturnsFromSignal  whether the code there is what a signal's handler returns to
//   kInterrupted…      where the kernel has put an interrupted function's registers, from where the
//                      stack pointer is once the handler has returned

#pragma once

#include <cstdint>

#include "tare/platform/processor.hpp"

namespace tare::platform {

// Registers of a frame, where it called: what is needed to find its caller.
struct Caller {
  std::uintptr_t call;  // return address
  std::uintptr_t stack_pointer;
  std::uintptr_t frame_pointer;
};

}  // namespace tare::platform

#if !__has_include(TARE_OF_PROCESSOR(frames.hpp))
#error "Tare's recorder does not know the frames of this processor yet"
#endif
#include TARE_OF_PROCESSOR(frames.hpp)
