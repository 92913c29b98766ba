#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::platform {

// The record of a thread, struct pthread, begins at the thread pointer: above thread-local storage
// and, but for the first thread, the stack.
inline constexpr std::size_t kThreadRecordBytes = 0x900;
inline std::uintptr_t EndOfThreadRecord(std::uintptr_t thread_pointer) {
  return thread_pointer + kThreadRecordBytes;
}

}  // namespace tare::platform
