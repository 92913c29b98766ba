// The functions of a loaded object: by the table of symbols in its file, which has them all unless
// it is stripped, or by the one that the dynamic linker uses, of what it exports. A file may hold
// anything, and nothing in it is trusted. Nothing here allocates, and what is looked at adds little
// to the peak of what is resident.

#pragma once

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::runner {

// By the hash table in memory, whose names cost nothing unless they are asked for.
class Exports {
 public:
  constexpr Exports() = default;
  explicit Exports(const dl_phdr_info& object) {
    for (int part = 0; part < object.dlpi_phnum; ++part) {
      if (object.dlpi_phdr[part].p_type != PT_DYNAMIC) continue;
      const std::uintptr_t at = object.dlpi_addr + object.dlpi_phdr[part].p_vaddr;
      for (auto* entry = reinterpret_cast<const ElfW(Dyn)*>(at); entry->d_tag != DT_NULL; ++entry) {
        std::uintptr_t table = entry->d_un.d_ptr;
        if (table < object.dlpi_addr) table += object.dlpi_addr;  // what the linker may not change
        if (entry->d_tag == DT_GNU_HASH) header_ = reinterpret_cast<const std::uint32_t*>(table);
        if (entry->d_tag == DT_SYMTAB) symbols_ = reinterpret_cast<const ElfW(Sym)*>(table);
        if (entry->d_tag == DT_STRTAB) names_ = reinterpret_cast<const char*>(table);
      }
    }
  }

  // nullptr where no function of that name is defined.
  const ElfW(Sym) * Find(const char* name) const {
    if (header_ == nullptr || symbols_ == nullptr || names_ == nullptr) return nullptr;
    const std::uint32_t buckets = header_[0], first = header_[1], words = header_[2];
    if (buckets == 0 || words == 0) return nullptr;
    std::uint32_t hash = 5381;
    for (const char* at = name; *at != '\0'; ++at)
      hash = hash * 33 + static_cast<unsigned char>(*at);
    constexpr std::uint32_t kBits = 8 * sizeof(ElfW(Addr));
    const auto* const filter = reinterpret_cast<const ElfW(Addr)*>(header_ + 4);
    const ElfW(Addr) word = filter[hash / kBits % words];
    if ((word >> (hash % kBits) & word >> ((hash >> header_[3]) % kBits) & 1) == 0) return nullptr;
    const auto* const heads = reinterpret_cast<const std::uint32_t*>(filter + words);
    const std::uint32_t* const hashes = heads + buckets;
    std::uint32_t number = heads[hash % buckets];
    if (number < first) return nullptr;
    for (;; ++number) {
      const std::uint32_t found = hashes[number - first];
      const ElfW(Sym)& symbol = symbols_[number];
      if ((found | 1) == (hash | 1) && strcmp(name, names_ + symbol.st_name) == 0)
        return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF ? &symbol
                                                                                         : nullptr;
      if ((found & 1) != 0) return nullptr;
    }
  }

 private:
  const std::uint32_t* header_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
};

class Symbols {
 public:
  explicit Symbols(const char* path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const off_t end = lseek(fd, 0, SEEK_END);
    bytes_ = end > 0 ? static_cast<std::size_t>(end) : 0;
    // Only a file that has them is mapped: a small program's peak of resident memory is as small.
    ElfW(Shdr) symbols{}, names{};
    if (Find(fd, symbols, names)) {
      const long mapped = syscall(SYS_mmap, nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (mapped != -1) Take(reinterpret_cast<const char*>(mapped), symbols, names);
    }
    close(fd);
  }
  ~Symbols() {
    if (file_ != nullptr) syscall(SYS_munmap, file_, bytes_);
  }
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  // Whether there are any. Then all functions have a name, those too that only one source file
  // sees.
  explicit operator bool() const { return count_ > 0; }

  // From the function on to the end of its section.
  std::size_t Room(const ElfW(Sym) & function) const {
    ElfW(Shdr) section{};
    const std::size_t at = sections_ + function.st_shndx * sizeof section;
    if (at > bytes_ || bytes_ - at < sizeof section) return 0;
    memcpy(&section, file_ + at, sizeof section);
    const std::uintptr_t into = function.st_value - section.sh_addr;
    return into < section.sh_size ? section.sh_size - into : 0;
  }

  // Calls `visit` with the name and the symbol of each function that is defined.
  template <typename Visit>
  void EachFunction(Visit visit) const {
    constexpr std::size_t kAtOnce = 8192;
    for (std::size_t number = 0; number < count_; ++number) {
      ElfW(Sym) symbol;
      memcpy(&symbol, symbols_ + number * sizeof symbol, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
          symbol.st_name < names_bytes_)
        visit(names_ + symbol.st_name, symbol);
      if (number % kAtOnce == kAtOnce - 1) syscall(SYS_madvise, file_, bytes_, MADV_DONTNEED);
    }
  }

 private:
  template <typename Read>
  static bool ReadAt(int fd, std::size_t offset, Read& read) {
    return pread(fd, &read, sizeof read, static_cast<off_t>(offset)) == ssize_t{sizeof read};
  }
  bool IsInside(const ElfW(Shdr) & section) const {
    return section.sh_offset <= bytes_ && section.sh_size <= bytes_ - section.sh_offset;
  }

  bool Find(int fd, ElfW(Shdr) & symbols, ElfW(Shdr) & names) {
    ElfW(Ehdr) header{};
    if (!ReadAt(fd, 0, header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        header.e_shentsize != sizeof(ElfW(Shdr)))
      return false;
    sections_ = header.e_shoff;
    constexpr std::size_t kAtOnce = 16;
    ElfW(Shdr) sections[kAtOnce];
    for (std::size_t number = 0; number < header.e_shnum; number += kAtOnce) {
      const std::size_t left = header.e_shnum - number, count = left < kAtOnce ? left : kAtOnce;
      const auto wanted = static_cast<ssize_t>(count * sizeof *sections);
      const auto offset = static_cast<off_t>(sections_ + number * sizeof *sections);
      if (pread(fd, sections, static_cast<std::size_t>(wanted), offset) != wanted) return false;
      for (std::size_t at = 0; at < count; ++at)
        if (sections[at].sh_type == SHT_SYMTAB) symbols = sections[at];
    }
    return symbols.sh_type == SHT_SYMTAB && symbols.sh_entsize == sizeof(ElfW(Sym)) &&
           ReadAt(fd, sections_ + symbols.sh_link * sizeof names, names) && IsInside(symbols) &&
           IsInside(names) && names.sh_size > 0;
  }

  void Take(const char* file, const ElfW(Shdr) & symbols, const ElfW(Shdr) & names) {
    file_ = file;
    if (file_[names.sh_offset + names.sh_size - 1] != '\0') return;
    symbols_ = file_ + symbols.sh_offset;
    count_ = symbols.sh_size / sizeof(ElfW(Sym));
    names_ = file_ + names.sh_offset;
    names_bytes_ = names.sh_size;
  }

  const char* file_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t sections_ = 0;
  const char* symbols_ = nullptr;
  std::size_t count_ = 0;
  const char* names_ = nullptr;
  std::size_t names_bytes_ = 0;
};

}  // namespace tare::runner
