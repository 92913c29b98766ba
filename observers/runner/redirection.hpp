// Leads the functions of allocators that a program brings along to the manager, before anything
// allocates by them. All of an allocator's functions that its file names go together: an object of
// one malloc must not be freed by another.

#pragma once

#include <dlfcn.h>
#include <link.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "line.hpp"
#include "preloaded.hpp"
#include "private_entries.hpp"
#include "symbols.hpp"
#include "tare/platform/jump.hpp"

namespace tare::runner {

struct PrivateAllocator {
  const char* prefix;  // of all its functions
  const Entry* entries;
  std::size_t count;
};

template <std::size_t kCount>
constexpr PrivateAllocator With(const char* prefix, const Entry (&entries)[kCount]) {
  return {prefix, entries, kCount};
}

inline constexpr PrivateAllocator kPrivateAllocators[] = {
    {"", nullptr, 0},        // the malloc family itself
    With("mi_", kMimalloc),  // mimalloc
    With("sn_", kSnmalloc),  // snmalloc, for Rust
    With("rp", kRpmalloc),   // rpmalloc
    With("tc_", kTcmalloc),  // tcmalloc
    With("dl", kDlmalloc),   // dlmalloc
    With("", kJemalloc),     // jemalloc, by any prefix: kAnyPrefix
};
constexpr std::size_t kPrivateCount = sizeof kPrivateAllocators / sizeof *kPrivateAllocators;
constexpr std::size_t kUnnamed = 0, kAnyPrefix = kPrivateCount - 1, kOperatorsOfCxx = kPrivateCount;
constexpr char kJemallocsOwn[] = "sdallocx";
constexpr const char* kUsualPrefixes[] = {"", "je_", "_rjem_"};
// Of what hands out more objects that free must know: sanitizers watch the program's malloc, and
// the allocators of browsers have arenas beside it.
constexpr const char* kLeftAlone[] = {"__asan_init", "__hwasan_init", "__lsan_init",
                                      "__msan_init", "__tsan_init",   "moz_arena_malloc"};
// tcmalloc's, which from 2.11 on calls tcmalloc's malloc until that has set it up.
constexpr char kExtensionOfTcmalloc[] = "_ZN15MallocExtension8instanceEv";
constexpr char kPartitionAlloc[] = "_ZN15partition_alloc";  // how its names begin

// The functions of one loaded object that its private allocators are called by.
class PrivateFunctions {
 public:
  struct Place {
    std::uintptr_t address;
    const Entry* entry;
    unsigned allocators;  // a bit for each that has it, by one name or another
  };
  static constexpr std::size_t kMost = tare::platform::Relays::kMost, kMostName = 64;

  PrivateFunctions(const char* path, const dl_phdr_info& object)
      : symbols_(path), bias_(object.dlpi_addr) {
    if (symbols_)
      LookThrough();
    else
      LookUp(Exports(object));
  }

  // Whether the allocator is there, and can be led elsewhere as a whole.
  bool IsWhole(std::size_t allocator) const {
    const bool is_whole = !is_left_alone_ && !is_cut_[allocator] && !is_cut_[kOperatorsOfCxx] &&
                          allocates_[allocator] && frees_[allocator];
    return is_whole && (allocator != kUnnamed || symbols_ || HasNamed());
  }
  // What must be called before its malloc is led elsewhere, null where there is nothing.
  using Start = void*();
  Start* MustStart() const { return start_; }
  bool HasAny() const { return IsWhole(kUnnamed) || HasNamed(); }
  const char* Prefix(std::size_t allocator) const {
    return allocator == kAnyPrefix ? any_prefix_ : kPrivateAllocators[allocator].prefix;
  }
  std::size_t Size() const { return used_; }
  const Place& operator[](std::size_t number) const { return functions_[number]; }
  std::size_t Count(std::size_t allocator) const {
    std::size_t count = 0;
    for (std::size_t number = 0; number < used_; ++number)
      count += functions_[number].allocators >> allocator & 1;
    return count;
  }
  // Whether it is of an allocator that is led elsewhere, or an operator of C++.
  bool IsLed(const Place& place) const {
    bool is_led = (place.allocators >> kOperatorsOfCxx & 1) != 0;
    for (std::size_t allocator = 0; allocator < kPrivateCount; ++allocator)
      is_led |= (place.allocators >> allocator & 1) != 0 && IsWhole(allocator);
    return is_led;
  }

 private:
  // What stands behind a malloc that only shows itself to others may have entries that it does not.
  bool HasNamed() const {
    for (std::size_t allocator = kUnnamed + 1; allocator < kPrivateCount; ++allocator)
      if (IsWhole(allocator)) return true;
    return false;
  }

  // Names of C++ and Rust, of which programs have most.
  static bool IsMangled(const char* name) {
    return name[0] == '_' &&
           (name[1] == 'R' || (name[1] == 'Z' && name[2] != 'n' && name[2] != 'd'));
  }

  void LookThrough() {
    symbols_.EachFunction([&](const char* name, const ElfW(Sym) & symbol) {
      LearnPrefix(name);
      LearnStart(name, symbol);
      Match(name, symbol);
    });
    if (has_any_prefix_)  // some came before it was known
      symbols_.EachFunction(
          [&](const char* name, const ElfW(Sym) & symbol) { Match(name, symbol); });
    if (has_short_)
      symbols_.EachFunction([&](const char*, const ElfW(Sym) & symbol) { KeepApart(symbol); });
  }

  // By the names that are known, of an object that does not have all of its own.
  void LookUp(const Exports& exports) {
    for (const char* const name : kLeftAlone) is_left_alone_ |= exports.Find(name) != nullptr;
    if (const ElfW(Sym)* const start = exports.Find(kExtensionOfTcmalloc))
      LearnStart(kExtensionOfTcmalloc, *start);
    for (const char* const prefix : kUsualPrefixes) {
      char name[kMostName] = {};
      Join(name, prefix, kJemallocsOwn);
      if (exports.Find(name) != nullptr) LearnPrefix(name);
    }
    for (std::size_t allocator = 0; allocator < kPrivateCount; ++allocator) {
      const PrivateAllocator& known = kPrivateAllocators[allocator];
      if (allocator == kAnyPrefix && !has_any_prefix_) continue;
      LookUp(exports, Prefix(allocator), known.entries, known.count);
      LookUp(exports, Prefix(allocator), kStandard, sizeof kStandard / sizeof *kStandard);
    }
    LookUp(exports, "", kOperators, sizeof kOperators / sizeof *kOperators);
  }
  void LookUp(const Exports& exports, const char* prefix, const Entry* entries, std::size_t count) {
    for (std::size_t at = 0; at < count; ++at) {
      char name[kMostName] = {};
      Join(name, prefix, entries[at].name);
      if (const ElfW(Sym)* const symbol = exports.Find(name)) Match(name, *symbol);
    }
  }
  static void Join(char (&name)[kMostName], const char* prefix, const char* rest) {
    const std::size_t length = strlen(prefix), more = strlen(rest);
    if (length + more >= sizeof name) return;
    memcpy(name, prefix, length);
    memcpy(name + length, rest, more + 1);
  }

  void LearnPrefix(const char* name) {
    if (IsMangled(name)) {
      is_left_alone_ |= strncmp(name, kPartitionAlloc, sizeof kPartitionAlloc - 1) == 0;
      return;
    }
    for (const char* const function : kLeftAlone) is_left_alone_ |= strcmp(name, function) == 0;
    const std::size_t length = strnlen(name, sizeof any_prefix_ + sizeof kJemallocsOwn);
    constexpr std::size_t kOwn = sizeof kJemallocsOwn - 1;
    if (length < kOwn || length - kOwn >= sizeof any_prefix_ ||
        strcmp(name + length - kOwn, kJemallocsOwn) != 0)
      return;
    memcpy(any_prefix_, name, length - kOwn);
    any_prefix_[length - kOwn] = '\0';
    has_any_prefix_ = true;
  }

  void LearnStart(const char* name, const ElfW(Sym) & symbol) {
    if (strcmp(name, kExtensionOfTcmalloc) == 0)
      start_ = reinterpret_cast<Start*>(bias_ + symbol.st_value);
  }

  void Match(const char* name, const ElfW(Sym) & symbol) {
    if (IsMangled(name)) return;
    if (name[0] == '_' && name[1] == 'Z')
      for (const Entry& entry : kOperators)
        if (strcmp(name, entry.name) == 0) return Add(kOperatorsOfCxx, entry, symbol);
    for (std::size_t allocator = 0; allocator < kPrivateCount; ++allocator) {
      if (allocator == kAnyPrefix && !has_any_prefix_) continue;
      const char* const prefix = Prefix(allocator);
      const std::size_t length = strlen(prefix);
      // A function that only one source file sees may mean anything by "free".
      if (length == 0 && ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      if (strncmp(name, prefix, length) != 0) continue;
      const PrivateAllocator& known = kPrivateAllocators[allocator];
      for (std::size_t at = 0; at < known.count; ++at)
        if (strcmp(name + length, known.entries[at].name) == 0)
          return Add(allocator, known.entries[at], symbol);
      for (const Entry& entry : kStandard)
        if (strcmp(name + length, entry.name) == 0) return Add(allocator, entry, symbol);
    }
  }

  void Add(std::size_t allocator, const Entry& entry, const ElfW(Sym) & symbol) {
    const std::uintptr_t at = bias_ + symbol.st_value;
    Has(allocator, entry);
    for (std::size_t number = 0; number < used_; ++number)
      if (functions_[number].address == at) {
        functions_[number].allocators |= 1U << allocator;
        return;
      }
    const bool is_short = symbol.st_size < tare::platform::kJumpBytes;
    const bool has_room =
        !is_short || (symbols_ && symbols_.Room(symbol) >= tare::platform::kJumpBytes);
    has_short_ |= is_short;
    is_cut_[allocator] |= used_ == kMost || !has_room;
    if (!is_cut_[allocator]) functions_[used_++] = {at, &entry, 1U << allocator};
  }

  // A function that does nothing may end before a jump would, and another begin there.
  void KeepApart(const ElfW(Sym) & symbol) {
    for (std::size_t number = 0; number < used_; ++number) {
      const std::uintptr_t behind = bias_ + symbol.st_value - functions_[number].address;
      if (behind == 0 || behind >= tare::platform::kJumpBytes) continue;
      for (std::size_t allocator = 0; allocator <= kPrivateCount; ++allocator)
        is_cut_[allocator] |= (functions_[number].allocators >> allocator & 1) != 0;
    }
  }

  void Has(std::size_t allocator, const Entry& entry) {
    allocates_[allocator] |= entry.role == Role::kAllocates;
    frees_[allocator] |= entry.role == Role::kFrees;
  }

  const Symbols symbols_;
  const std::uintptr_t bias_;
  char any_prefix_[32] = {};
  bool has_any_prefix_ = false, is_left_alone_ = false, has_short_ = false;
  bool is_cut_[kPrivateCount + 1] = {}, allocates_[kPrivateCount + 1] = {},
                               frees_[kPrivateCount + 1] = {};
  Start* start_ = nullptr;
  std::size_t used_ = 0;
  Place functions_[kMost] = {};
};

class Redirection {
 public:
  // Looks what private allocators there are, and leads them to the manager or leaves them.
  void Begin(const char* preloaded, bool leads) {
    preloaded_ = preloaded;
    leads_ = leads;
    Dl_info information{};
    if (dladdr(InLibrary(), &information) == 0) return;
    libc_ = information.dli_fbase;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* self) {
          auto& redirection = *static_cast<Redirection*>(self);
          const bool is_library = reinterpret_cast<void*>(object->dlpi_addr) == redirection.libc_;
          if (is_library) redirection.library_ = Exports(*object);
          return static_cast<int>(is_library);
        },
        this);
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* self) {
          static_cast<Redirection*>(self)->LookAt(*object);
          return 0;
        },
        this);
  }

  // Where a call of `function` ends up.
  const void* Followed(const void* function) const {
    for (std::size_t number = 0; number < followed_; ++number)
      if (led_[number].from == function) return led_[number].to;
    return function;
  }

  // A line for each allocator, whose fields begin with those of `Begin`: file, prefix of its
  // functions, how many there are, and "led" or, where they are as they were, "found".
  template <typename Begin>
  void Report(Begin begin, const char* path) const {
    for (std::size_t number = 0; number < found_; ++number) {
      const Found& found = founds_[number];
      Line line;
      begin(line, "private");
      line << '\t';
      if (*found.file == '\0')
        PutExecutable(line);
      else
        line << found.file;
      line << '\t' << found.prefix << '\t' << static_cast<unsigned long>(found.functions) << '\t'
           << (found.is_led ? "led" : "found") << '\n';
      line.AppendTo(path);
    }
  }

 private:
  struct Found {
    const char* file;  // as the linker has it, empty for the program
    char prefix[32];
    std::size_t functions;
    bool is_led;
  };
  struct Led {
    const void *from, *to;
  };

  static const void* InLibrary() { return reinterpret_cast<const void*>(&sched_yield); }

  void LookAt(const dl_phdr_info& object) {
    const char* const name = object.dlpi_name;
    if (found_ + kPrivateCount > kMostFound || object.dlpi_addr == getauxval(AT_BASE) ||
        reinterpret_cast<void*>(object.dlpi_addr) == libc_ || IsPreloaded(preloaded_, name))
      return;
    const PrivateFunctions functions(*name == '\0' ? "/proc/self/exe" : name, object);
    if (!functions.HasAny()) return;
    const bool is_led = leads_ && Knows() && Lead(object, functions);
    for (std::size_t allocator = 0; allocator < kPrivateCount; ++allocator) {
      if (!functions.IsWhole(allocator)) continue;
      Found& found = founds_[found_++];
      found = {name, {}, functions.Count(allocator), is_led};
      memcpy(found.prefix, functions.Prefix(allocator), strlen(functions.Prefix(allocator)) + 1);
    }
  }

  // The manager's functions. What is asked for first is defined in any case: a failure would
  // allocate its message, when it is not clear yet by what.
  bool Knows() {
    return manager.malloc != nullptr ||
           (Set("malloc", manager.malloc) && Set("calloc", manager.calloc) &&
            Set("realloc", manager.realloc) && Set("free", manager.free) &&
            Set("posix_memalign", manager.posix_memalign) &&
            Set("malloc_usable_size", manager.malloc_usable_size));
  }
  template <typename Any>
  bool Set(const char* symbol, Any*& function) const {
    function = reinterpret_cast<Any*>(TargetOf(symbol));
    return function != nullptr;
  }
  // As what is preloaded defines it, or else the C library.
  void* TargetOf(const char* symbol) const {
    void* const next = dlsym(RTLD_NEXT, symbol);
    Dl_info information{};
    if (next == nullptr || dladdr(next, &information) == 0) return nullptr;
    if (information.dli_fbase == libc_ || IsPreloaded(preloaded_, information.dli_fname))
      return next;
    // For dlsym, an object is no place to look in that was not opened with dlopen.
    const ElfW(Sym)* const own = library_.Find(symbol);
    return own == nullptr ? nullptr : static_cast<char*>(libc_) + own->st_value;
  }

  bool Lead(const dl_phdr_info& object, const PrivateFunctions& functions) {
    std::uintptr_t start = UINTPTR_MAX, end = 0;
    for (int part = 0; part < object.dlpi_phnum; ++part) {
      const ElfW(Phdr)& header = object.dlpi_phdr[part];
      if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
      const std::uintptr_t first = object.dlpi_addr + header.p_vaddr;
      if (first < start) start = first;
      if (first + header.p_memsz > end) end = first + header.p_memsz;
    }
    for (std::size_t number = 0; number < functions.Size(); ++number)
      if (functions[number].address < start || functions[number].address >= end) return false;
    if (auto* const must_start = functions.MustStart()) must_start();
    tare::platform::Relays relays;
    if (!relays.Open(start, end)) return false;
    for (std::size_t number = 0; number < functions.Size(); ++number) {
      const auto& place = functions[number];
      if (!functions.IsLed(place)) continue;
      const void* const target = TargetOf(*place.entry);
      if (!relays.Lead(place.address, target)) return false;
      if (followed_ < kMostFollowed)
        led_[followed_++] = {reinterpret_cast<const void*>(place.address), target};
    }
    return true;
  }

  const void* TargetOf(const Entry& entry) const {
    if (entry.standard != nullptr) return TargetOf(entry.standard);
    return entry.function();
  }

  static constexpr std::size_t kMostFound = 32, kMostFollowed = 256;
  const char* preloaded_ = "";
  bool leads_ = false;
  void* libc_ = nullptr;
  Exports library_{};
  std::size_t found_ = 0, followed_ = 0;
  Found founds_[kMostFound] = {};
  Led led_[kMostFollowed] = {};
};

}  // namespace tare::runner
