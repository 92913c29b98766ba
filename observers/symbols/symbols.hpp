// Names of functions, files and lines, by way of elfutils. Separate debug files are found by their
// link and by build id, in folders and on servers.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "inlining.hpp"
#include "place.hpp"

extern "C" {
struct Dwfl;
struct Dwfl_Module;
}

namespace tare::symbols {

// The functions of a file that have a size, by address.
class Functions {
 public:
  void Add(std::uint64_t start, std::uint64_t bytes, unsigned rank, const char* name) {
    functions_.push_back({start, bytes, rank, name});
  }
  void Sort();
  // The name of the one that holds `address`; nullptr where there is none.
  const char* At(std::uint64_t address) const;

 private:
  struct Function {
    std::uint64_t start;
    std::uint64_t bytes;
    unsigned rank;  // of those that start together the lowest is taken
    const char* name;
  };
  std::vector<Function> functions_;
};

// Those of a program or library. A file that is not there, or holds none, has none.
class Symbols {
 public:
  explicit Symbols(const std::string& path);
  ~Symbols();
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // At an address as the file has it: the function there and those that have it inlined, the
  // innermost first.
  std::vector<Place> At(std::uint64_t offset);

 private:
  void ReadFunctions();
  const char* FunctionAt(std::uint64_t address) const;

  Dwfl* session_;
  Dwfl_Module* module_ = nullptr;
  std::uint64_t bias_ = 0;
  std::uint64_t debug_bias_ = 0;
  Functions global_, local_;
  std::unique_ptr<Inlining> inlining_;
};

}  // namespace tare::symbols
