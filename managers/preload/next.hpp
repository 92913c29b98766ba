// A function that this object stands in front of, found by its name when it is first called.

#pragma once

#include <algorithm>
#include <cstddef>

#include "inner.hpp"

namespace tare {

template <std::size_t kLength>
struct SymbolName {
  char text[kLength];
  consteval SymbolName(const char (&from)[kLength]) { std::copy_n(from, kLength, text); }
};

template <SymbolName kName, typename Function>
struct Next;

template <SymbolName kName, typename Result, typename... Arguments>
struct Next<kName, Result(Arguments...)> {
  static Result Call(Arguments... arguments) {
    if (function == nullptr) RequireNext(kName.text, function);
    return function(arguments...);
  }

  static bool Exists() { return function != nullptr || FindNext(kName.text, function); }

  using Function = Result(Arguments...);
  static constinit inline Function* function = nullptr;
};

}  // namespace tare
