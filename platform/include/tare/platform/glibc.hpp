// What glibc keeps to itself.

#pragma once

#include <gnu/libc-version.h>

#include <cstddef>
#include <cstdlib>

namespace tare::platform {

// By which it changes user ids in all threads: the one signal that it never lets a program block,
// nor blocks for long itself.
inline constexpr int kSetIdSignal = 33;

// Of struct malloc_state: an array of lists, each a pair of pointers, and bytes before it.
inline constexpr std::size_t kFreeLists = 127, kBeforeFreeLists = 112;

// Pages that may not be read, below the stacks of threads: from version 2.42 on by madvise, within
// the mapping of the stack.
inline bool GuardsStacksByAdvice() {
  char* rest = nullptr;
  const long major = strtol(gnu_get_libc_version(), &rest, 10);
  return major > 2 || (major == 2 && *rest == '.' && strtol(rest + 1, nullptr, 10) >= 42);
}

}  // namespace tare::platform
