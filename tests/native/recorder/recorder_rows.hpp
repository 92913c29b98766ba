// What recorder_harness.cpp has told the recorder, and what recorder_reader.cpp finds, event by
// event.

#pragma once

#include <cstdint>

struct Row {
  std::uint64_t thread;  // 0: after its end
  std::uint64_t kind;
  std::uint64_t moved;
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t usable;
  std::uint64_t alignment;
  std::uint64_t call;  // the return address at the top of the stack
};

// In the upper half of an address, less 1.
inline constexpr std::uint64_t kMakerOfHandlers = 3000;
