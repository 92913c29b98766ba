#include "symbols.hpp"

#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <algorithm>
#include <cstdlib>

namespace tare::recorder {
namespace {

constexpr Dwfl_Callbacks kCallbacks = {.find_elf = dwfl_build_id_find_elf,
                                       .find_debuginfo = dwfl_standard_find_debuginfo,
                                       .section_address = dwfl_offline_section_address,
                                       .debuginfo_path = nullptr};

std::string Readable(const char* symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string readable = status == 0 ? text : symbol;
  free(text);
  return readable;
}

std::string FileOf(Dwfl_Line* line, const char* name) {
  const char* const folder = name[0] == '/' ? nullptr : dwfl_line_comp_dir(line);
  return folder == nullptr ? name : std::string(folder) + "/" + name;
}

}  // namespace

Symbols::Symbols(const std::string& path) : session_(dwfl_begin(&kCallbacks)) {
  if (session_ == nullptr) return;
  dwfl_report_begin(session_);
  module_ = dwfl_report_elf(session_, path.c_str(), path.c_str(), -1, 0, true);
  dwfl_report_end(session_, nullptr, nullptr);
  GElf_Addr bias = 0;
  if (module_ != nullptr && dwfl_module_getelf(module_, &bias) != nullptr) bias_ = bias;
  if (module_ != nullptr) ReadFunctions();
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

Place Symbols::At(std::uint64_t offset) const {
  Place place;
  if (module_ == nullptr) return place;
  const GElf_Addr address = offset + bias_;
  if (const char* const name = FunctionAt(address); name != nullptr)
    place.function = Readable(name);
  Dwfl_Line* const line = dwfl_module_getsrc(module_, address);
  int number = 0;
  if (line == nullptr) return place;
  if (const char* const file = dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
      file != nullptr) {
    place.file = FileOf(line, file);
    place.line = number > 0 ? static_cast<std::uint32_t>(number) : 0;
  }
  return place;
}

}  // namespace tare::recorder
