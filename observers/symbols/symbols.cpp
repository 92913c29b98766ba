#include "symbols.hpp"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tare::symbols {
namespace {

// Ends with the folders in which elfutils looks by itself.
char* DebugPath() {
  static std::string path = [] {
    const char* const more = std::getenv("TARE_DEBUG_PATH");
    const std::string usual = ":.debug:/usr/lib/debug";
    return more == nullptr || *more == '\0' ? usual : usual + ":" + more;
  }();
  return path.data();
}

char* debug_path = DebugPath();

constexpr Dwfl_Callbacks kCallbacks = {.find_elf = dwfl_build_id_find_elf,
                                       .find_debuginfo = dwfl_standard_find_debuginfo,
                                       .section_address = dwfl_offline_section_address,
                                       .debuginfo_path = &debug_path};

}  // namespace

std::string Readable(const char* symbol) {
  // What has no prefix would be taken for the code of a type: f for float.
  if (std::strncmp(symbol, "_Z", 2) != 0) return symbol;
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string readable = status == 0 ? text : symbol;
  free(text);
  return readable;
}

Symbols::Symbols(const std::string& path) : session_(dwfl_begin(&kCallbacks)) {
  if (session_ == nullptr) return;
  dwfl_report_begin(session_);
  module_ = dwfl_report_elf(session_, path.c_str(), path.c_str(), -1, 0, true);
  dwfl_report_end(session_, nullptr, nullptr);
  GElf_Addr bias = 0;
  if (module_ != nullptr && dwfl_module_getelf(module_, &bias) != nullptr) bias_ = bias;
  if (module_ == nullptr) return;
  // First, for where a separate file of it is found, the symbols are that one's, too.
  GElf_Addr debug_bias = 0;
  inlining_ = std::make_unique<Inlining>(dwfl_module_getdwarf(module_, &debug_bias));
  debug_bias_ = debug_bias;
  ReadFunctions();
}

// The library itself looks through all symbols for each address.
void Symbols::ReadFunctions() {
  const int count = dwfl_module_getsymtab(module_);
  for (int number = 1; number < count; ++number) {
    GElf_Sym symbol;
    GElf_Addr start = 0;
    const char* const name =
        dwfl_module_getsym_info(module_, number, &symbol, &start, nullptr, nullptr, nullptr);
    const unsigned type = GELF_ST_TYPE(symbol.st_info), binding = GELF_ST_BIND(symbol.st_info);
    if (name == nullptr || *name == '\0' || symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
      continue;
    (binding == STB_LOCAL ? local_ : global_)
        .Add(start, symbol.st_size, binding == STB_GLOBAL ? 0 : 1, name);
  }
  global_.Sort();
  local_.Sort();
}

const char* Symbols::FunctionAt(std::uint64_t address) const {
  if (const char* const name = global_.At(address); name != nullptr) return name;
  return local_.At(address);
}

void Functions::Sort() {
  std::ranges::stable_sort(functions_, [](const Function& a, const Function& b) {
    return a.start != b.start ? a.start < b.start : a.rank > b.rank;
  });
}

const char* Functions::At(std::uint64_t address) const {
  constexpr int kMostInside = 16;  // a function may lie in another
  auto at = std::ranges::upper_bound(functions_, address, {}, &Function::start);
  const Function* found = nullptr;
  for (int looked = 0; at != functions_.begin() && looked < kMostInside; ++looked) {
    --at;
    if (found != nullptr && (at->start != found->start || at->rank > found->rank)) break;
    if (address - at->start < at->bytes) found = &*at;
  }
  return found != nullptr ? found->name : nullptr;
}

Symbols::~Symbols() {
  if (session_ != nullptr) dwfl_end(session_);
}

std::vector<Place> Symbols::At(std::uint64_t offset) {
  if (module_ == nullptr) return {};
  const GElf_Addr address = offset + bias_;
  std::vector<Place> places = inlining_->At(address - debug_bias_);
  const char* const name = FunctionAt(address);
  if (name == nullptr) return places;
  if (places.empty()) places.emplace_back();
  // Debug information has short names alone of what no other file can call.
  std::string& outermost = places.back().function;
  const std::string readable = Readable(name);
  if (outermost.empty() || readable.find('(') != std::string::npos) outermost = readable;
  return places;
}

}  // namespace tare::symbols
