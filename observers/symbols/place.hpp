// A place in a source, as debug information tells it.

#pragma once

#include <cstdint>
#include <string>

namespace tare::symbols {

// Empty and 0 where it is not known.
struct Place {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
};

// The name as its language writes it, or `symbol` itself.
std::string Readable(const char* symbol);

}  // namespace tare::symbols
