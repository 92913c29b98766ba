// Names of functions, files and lines, by way of elfutils.

#pragma once

#include <cstdint>
#include <string>

extern "C" {
struct Dwfl;
struct Dwfl_Module;
}

namespace tare::recorder {

// Empty and 0 where it is not known.
struct Place {
  std::string function;
  std::string file;
  std::uint32_t line = 0;
};

// Those of a program or library. A file that is not there, or holds none, has none.
class Symbols {
 public:
  explicit Symbols(const std::string& path);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // At an address as the file has it.
  Place At(std::uint64_t offset) const;

 private:
  Dwfl* session_;
  Dwfl_Module* module_ = nullptr;
  std::uint64_t bias_ = 0;
};

}  // namespace tare::recorder
