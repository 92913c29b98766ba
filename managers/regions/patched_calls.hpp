// Leads the calls that a loaded object makes of functions of others elsewhere, by its tables: a
// library calls by way of its table of jumps or, built with -fno-plt, of addresses.

#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tare/platform/memory.hpp"
#include "tare/platform/relocations.hpp"

namespace tare::regions {

struct PatchedCall {
  const char* symbol;
  void* function;
};

class CallPatcher {
 public:
  template <std::size_t kCount>
  CallPatcher(const dl_phdr_info& object, const PatchedCall (&calls)[kCount])
      : object_(object), calls_(calls), count_(kCount) {}

  // How many places were patched.
  unsigned Patch() const {
    unsigned patched = 0;
    for (int part = 0; part < object_.dlpi_phnum; ++part) {
      const ElfW(Phdr)& header = object_.dlpi_phdr[part];
      if (header.p_type != PT_DYNAMIC) continue;
      const Tables tables =
          TablesOf(reinterpret_cast<const ElfW(Dyn)*>(object_.dlpi_addr + header.p_vaddr));
      patched += PatchAmong(tables, tables.jumps) + PatchAmong(tables, tables.others);
    }
    return patched;
  }

 private:
  struct Relocations {
    const ElfW(Rela) * first;
    std::size_t bytes;
  };
  struct Tables {
    const ElfW(Sym) * symbols;
    const char* names;
    Relocations jumps, others;
  };

  static Tables TablesOf(const ElfW(Dyn) * entry) {
    Tables tables{};
    for (; entry->d_tag != DT_NULL; ++entry) {
      const auto* const at = reinterpret_cast<const char*>(entry->d_un.d_ptr);
      const auto* const relocations = reinterpret_cast<const ElfW(Rela)*>(at);
      if (entry->d_tag == DT_SYMTAB) tables.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
      if (entry->d_tag == DT_STRTAB) tables.names = at;
      if (entry->d_tag == DT_JMPREL) tables.jumps.first = relocations;
      if (entry->d_tag == DT_PLTRELSZ) tables.jumps.bytes = entry->d_un.d_val;
      if (entry->d_tag == DT_RELA) tables.others.first = relocations;
      if (entry->d_tag == DT_RELASZ) tables.others.bytes = entry->d_un.d_val;
    }
    return tables;
  }

  unsigned PatchAmong(const Tables& tables, Relocations relocations) const {
    unsigned patched = 0;
    for (std::size_t at = 0; at < relocations.bytes / sizeof(ElfW(Rela)); ++at) {
      const ElfW(Rela)& relocation = relocations.first[at];
      const auto type = ELF64_R_TYPE(relocation.r_info);
      if (type != platform::kJumpSlot && type != platform::kAddressSlot) continue;
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      void* const function = FunctionFor(tables.names + symbol.st_name);
      if (function != nullptr &&
          Write(reinterpret_cast<void**>(object_.dlpi_addr + relocation.r_offset), function))
        ++patched;
    }
    return patched;
  }

  void* FunctionFor(const char* symbol) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (strcmp(symbol, calls_[i].symbol) == 0) return calls_[i].function;
    return nullptr;
  }

  bool Write(void** place, void* address) const {
    void* const page =
        reinterpret_cast<void*>(platform::PageDown(reinterpret_cast<std::uintptr_t>(place)));
    const bool is_sealed = IsSealed(place);
    if (is_sealed && mprotect(page, platform::kPageBytes, PROT_READ | PROT_WRITE) != 0)
      return false;
    *place = address;
    if (is_sealed) mprotect(page, platform::kPageBytes, PROT_READ);
    return true;
  }

  // What is relocated once and then read-only.
  bool IsSealed(const void* place) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(place) - object_.dlpi_addr;
    for (int part = 0; part < object_.dlpi_phnum; ++part) {
      const ElfW(Phdr)& header = object_.dlpi_phdr[part];
      if (header.p_type == PT_GNU_RELRO && offset - header.p_vaddr < header.p_memsz) return true;
    }
    return false;
  }

  const dl_phdr_info& object_;
  const PatchedCall* calls_;
  std::size_t count_;
};

}  // namespace tare::regions
