// What can be set, as environment variables say it. The command line checks values before a program
// is started, so a wrong one here is a mistake of whoever preloaded the object by hand.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "system.hpp"

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

[[noreturn]] inline void WrongOption(const char* variable, const char* value) {
  Message message;
  message << "tare-delay: the environment variable " << variable << " is '" << value
          << "', which is not a value of it; docs/delay.md lists them";
  Abort(message);
}

inline std::size_t ReadBytes(const char* variable, std::size_t otherwise, std::size_t least,
                             std::size_t most) {
  const char* const text = getenv(variable);
  if (text == nullptr) return otherwise;
  std::size_t bytes = 0;
  for (const char* at = text; *at != '\0'; ++at) {
    if (*at < '0' || *at > '9' || bytes > most) WrongOption(variable, text);
    bytes = bytes * 10 + static_cast<std::size_t>(*at - '0');
  }
  if (bytes < least || bytes > most) WrongOption(variable, text);
  return bytes;
}

// Whether the variable says `yes`; `no` is the only other word it may hold.
inline bool ReadChoice(const char* variable, bool otherwise, const char* yes, const char* no) {
  const char* const text = getenv(variable);
  if (text == nullptr) return otherwise;
  if (strcmp(text, yes) == 0) return true;
  if (strcmp(text, no) != 0) WrongOption(variable, text);
  return false;
}

inline Options ReadOptions() {
  Options options;
  options.size = ReadBytes("TARE_DELAY_SIZE", options.size, 1, kLargestSize);
  const char* const buffer = getenv("TARE_DELAY_BUFFER");
  if (buffer != nullptr && strcmp(buffer, "grow") != 0)
    options.buffer = ReadBytes("TARE_DELAY_BUFFER", 0, kLeastBuffer, kLargestSize);
  options.global = ReadChoice("TARE_DELAY_SCOPE", options.global, "global", "thread");
  options.fifo = ReadChoice("TARE_DELAY_ORDER", options.fifo, "fifo", "lifo");
  options.delay_realloc = ReadChoice("TARE_DELAY_REALLOC", options.delay_realloc, "delay", "pass");
  options.poison = ReadChoice("TARE_DELAY_POISON", options.poison, "yes", "no");
  return options;
}

}  // namespace tare
