// What can be set, as environment variables say it.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "environment.hpp"

namespace tare {

struct Options {
  std::size_t size = 64 << 10;  // bytes in quarantine at which it is emptied
  std::size_t buffer = 0;       // bytes of a thread's list of objects; 0: grown as needed
  bool global = false;          // one volume for all threads
  bool fifo = true;             // the oldest object first
  bool delay_realloc = true;    // the old object of a realloc that moves goes into quarantine
  bool poison = false;          // fill what is in quarantine, and check it
};

inline constexpr std::size_t kLargestSize = std::size_t{1} << 30;
inline constexpr std::size_t kLeastBuffer = 4096;

inline Options ReadOptions() {
  Options options;
  options.size = ReadBytes("TARE_DELAY_SIZE", options.size, 1, kLargestSize);
  const char* const buffer = getenv("TARE_DELAY_BUFFER");
  if (buffer != nullptr && strcmp(buffer, "grow") != 0)
    options.buffer = ReadBytes("TARE_DELAY_BUFFER", 0, kLeastBuffer, kLargestSize);
  options.global = ReadChoice("TARE_DELAY_SCOPE", options.global, "global", "thread");
  options.fifo = ReadChoice("TARE_DELAY_ORDER", options.fifo, "fifo", "lifo");
  options.delay_realloc = ReadChoice("TARE_DELAY_REALLOC", options.delay_realloc, "delay", "pass");
  // What is as large as the threshold is left to the allocator, and all is.
  if (options.size == 1) options.delay_realloc = false;
  options.poison = ReadChoice("TARE_DELAY_POISON", options.poison, "yes", "no");
  return options;
}

}  // namespace tare
