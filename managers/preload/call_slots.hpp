// The words by which a loaded object calls functions of others: those of its table of jumps or,
// built with -fno-plt, of addresses, and addresses of functions in its data.

#pragma once

#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "tare/platform/elf.hpp"
#include "tare/platform/memory.hpp"

namespace tare {

enum class SlotKind { kJump, kAddress, kInData };

struct CallSlot {
  const char* symbol;
  void** place;
  SlotKind kind;
};

class CallSlots {
 public:
  explicit CallSlots(const dl_phdr_info& object) : object_(object) {}

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (int part = 0; part < object_.dlpi_phnum; ++part) {
      const ElfW(Phdr)& header = object_.dlpi_phdr[part];
      if (header.p_type != PT_DYNAMIC) continue;
      const Tables tables =
          TablesOf(reinterpret_cast<const ElfW(Dyn)*>(object_.dlpi_addr + header.p_vaddr));
      // The kernel's own object has addresses of its file there.
      if (!Holds(tables.symbols) || !Holds(tables.names)) continue;
      VisitAmong(tables, tables.jumps, visit);
      VisitAmong(tables, tables.others, visit);
    }
  }

  bool Holds(const void* address) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(address) - object_.dlpi_addr;
    for (int part = 0; part < object_.dlpi_phnum; ++part) {
      const ElfW(Phdr)& header = object_.dlpi_phdr[part];
      if (header.p_type == PT_LOAD && offset - header.p_vaddr < header.p_memsz) return true;
    }
    return false;
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

  static bool Write(void** place, void* address, bool is_sealed) {
    void* const page =
        reinterpret_cast<void*>(platform::PageDown(reinterpret_cast<std::uintptr_t>(place)));
    if (is_sealed && mprotect(page, platform::PageBytes(), PROT_READ | PROT_WRITE) != 0)
      return false;
    __atomic_store_n(place, address, __ATOMIC_RELAXED);
    if (is_sealed) mprotect(page, platform::PageBytes(), PROT_READ);
    return true;
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

  template <typename Visit>
  void VisitAmong(const Tables& tables, Relocations relocations, Visit& visit) const {
    for (std::size_t at = 0; at < relocations.bytes / sizeof(ElfW(Rela)); ++at) {
      const ElfW(Rela)& relocation = relocations.first[at];
      SlotKind kind;
      switch (ELF64_R_TYPE(relocation.r_info)) {
        case platform::kJumpSlot:
          kind = SlotKind::kJump;
          break;
        case platform::kAddressSlot:
          kind = SlotKind::kAddress;
          break;
        case platform::kAddressInData:
          kind = SlotKind::kInData;
          break;
        default:
          continue;
      }
      const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(relocation.r_info)];
      visit(CallSlot{tables.names + symbol.st_name,
                     reinterpret_cast<void**>(object_.dlpi_addr + relocation.r_offset), kind});
    }
  }

  const dl_phdr_info& object_;
};

}  // namespace tare
