// How to get from a frame to the frame that called it, at a place in the code.

#pragma once

#include <cstdint>

namespace tare::recorder {

// The canonical frame address (CFA) is the stack pointer behind the return address.
enum class Step : std::uint8_t {
  kUnknown,           // no rule that is understood
  kOutermost,         // there is no caller
  kFromStackPointer,  // CFA = stack pointer + offset
  kFromFrame,         // CFA = frame pointer + offset
  kThroughFrame,      // CFA = word at frame pointer + offset: a stack that was aligned anew
  kSignal,            // a handler's frame: the kernel has the registers on the stack
};
enum class SavedFrame : std::uint8_t { kNotSaved, kBelowCfa, kAtFrame };

struct Rule {
  std::int32_t offset;
  std::int16_t saved;  // of the caller's frame pointer, in words from the CFA or the frame pointer
  Step step;
  SavedFrame saved_frame;
};
static_assert(sizeof(Rule) == 8);

}  // namespace tare::recorder
