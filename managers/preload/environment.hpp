// Options that environment variables carry. The command line checks values before a program is
// started, so a wrong one here is a mistake of whoever preloaded the object by hand.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "system.hpp"

namespace tare {

[[noreturn]] inline void WrongOption(const char* variable, const char* value) {
  Message message;
  message << "tare: the environment variable " << variable << " is '" << value
          << "', which is not a value of it";
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

}  // namespace tare
