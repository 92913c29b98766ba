// Text as JSON has it.

#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace tare::recorder {

// Bytes that are no UTF-8 stay as they are: the reader replaces them.
inline std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      char escaped[8];
      snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      quoted += escaped;
      continue;
    }
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace tare::recorder
