// How to get from a frame to the frame that called it, at a place in the code.

#pragma once

#include <cstdint>

namespace tare::recorder {

// The canonical frame address (CFA) is the stack pointer where the function was called, before the
// call put a return address there, if calls do.
enum class Step : std::uint8_t {
  kUnknown,           // no rule that is understood
  kOutermost,         // there is no caller
  kFromStackPointer,  // CFA = stack pointer + offset
  kFromFrame,         // CFA = frame pointer + offset
  kThroughFrame,      // CFA = word at frame pointer + offset: a stack that was aligned anew
  kSignal,            // a handler's frame: the kernel has the registers on the stack
};
enum class SavedFrame : std::uint8_t { kNotSaved, kBelowCfa, kAtFrame };

// Distances are in words.
struct Rule {
  std::int64_t offset : 24;
  std::int64_t saved : 16;     // of the caller's frame pointer, from the CFA or the frame pointer
  std::int64_t returned : 16;  // of the return address, from the CFA; 0: still in its register
  Step step : 4;
  SavedFrame saved_frame : 4;
};
static_assert(sizeof(Rule) == 8);
inline constexpr Rule kSignalRule{0, 0, 0, Step::kSignal, SavedFrame::kNotSaved};

}  // namespace tare::recorder
