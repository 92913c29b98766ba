// tare-symbols: names places in programs and libraries. Reads from standard input, each ended by a
// zero byte, an address as the file has it in hexadecimal digits, a blank, and the path of the
// file. Answers each with a line: a JSON list of the function there and those that have it inlined,
// the innermost first, each as [function, file, line]; of no names, an empty list.
//
//   tare-symbols
//
// TARE_DEBUG_PATH names folders with separate debug files, beside /usr/lib/debug. Servers of
// DEBUGINFOD_URLS are asked for those that lie nowhere.

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "../json_text.h"
#include "symbols.hpp"

namespace {

std::string Answer(const std::vector<tare::symbols::Place>& places) {
  tare::Json line;
  line.Begin('[');
  for (const tare::symbols::Place& place : places)
    line.Begin('[').Value(place.function).Value(place.file).Value(place.line).End(']');
  return line.End(']').Text();
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::unique_ptr<tare::symbols::Symbols> symbols;  // of the last path: they may be large
  std::string request, path;
  while (std::getline(std::cin, request, '\0')) {
    const std::size_t blank = request.find(' ');
    if (blank == std::string::npos) return 2;
    if (symbols == nullptr || request.compare(blank + 1, std::string::npos, path) != 0) {
      path = request.substr(blank + 1);
      symbols.reset();
      symbols = std::make_unique<tare::symbols::Symbols>(path);
    }
    std::cout << Answer(symbols->At(std::strtoull(request.c_str(), nullptr, 16))) << '\n';
  }
  return std::cout.flush() ? 0 : 4;
}
