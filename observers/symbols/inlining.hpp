// Functions that are inlined into others, with the lines that call them, from DWARF.

#pragma once

#include <elfutils/libdw.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "place.hpp"

namespace tare::symbols {

// The compilation units of a file, each read when an address in it is first asked for.
class Inlining {
 public:
  // `dwarf` may be nullptr.
  explicit Inlining(Dwarf* dwarf);

  // The function at an address and those that have it inlined, the innermost first. The outermost
  // may have a line alone. Empty where there is no debug information.
  std::vector<Place> At(Dwarf_Addr address);

 private:
  struct Range {
    Dwarf_Addr start, end;
    std::size_t owner;
  };
  // A function, or a copy of one inside another.
  struct Scope {
    Dwarf_Die die;
    std::size_t outer;
    unsigned depth;
  };
  struct Function {
    std::size_t scope;
    std::vector<Range> copies;  // of functions inlined into it
  };
  struct Unit {
    Dwarf_Die lines, tree;
    bool is_read = false;
    std::vector<Scope> scopes;
    std::vector<Function> functions;
    std::vector<Range> ranges;  // of functions
  };

  static void PutStatement(Place& place, Unit& unit, std::size_t scope);
  std::string NameOf(Unit& unit, Dwarf_Die* die);
  static void Read(Unit& unit);
  static void ReadChildren(Unit& unit, Dwarf_Die* parent, std::size_t function, std::size_t scope,
                           unsigned nesting);
  static void AddRanges(std::vector<Range>& ranges, Dwarf_Die* die, std::size_t owner);
  static void Sort(std::vector<Range>& ranges);
  static const Range* Find(const std::vector<Range>& ranges, Dwarf_Addr address);
  static std::size_t ScopeAt(const Unit& unit, Dwarf_Addr address);

  std::vector<Unit> units_;
  std::vector<Range> ranges_;                 // of units
  std::map<const void*, std::string> names_;  // of declarations without a linker's name
};

}  // namespace tare::symbols
