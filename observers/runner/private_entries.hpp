// The functions by which programs call allocators that they bring along, and what serves a call of
// each from the malloc family instead. Names and meanings are those of the allocators' own headers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::runner {

// The manager's, by which the functions below are served.
struct Family {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};
inline constinit Family manager{};

[[noreturn]] void Refuse(const char* function);  // there is no such thing in the malloc family
[[noreturn]] void FailToAllocate();              // as operator new

// ---- what they have in common ----

constexpr std::size_t kUsualAlignment = 2 * sizeof(void*);
constexpr std::size_t kMostBytes = PTRDIFF_MAX;

inline bool Overflows(std::size_t count, std::size_t bytes) {
  return bytes != 0 && count > kMostBytes / bytes;
}

inline void* Aligned(std::size_t alignment, std::size_t bytes) {
  if (alignment <= kUsualAlignment) return manager.malloc(bytes);
  void* object = nullptr;
  return manager.posix_memalign(&object, alignment, bytes) == 0 ? object : nullptr;
}

// All that is usable from `from` on: where an object of zeros grows, what it had is zeros already.
inline void* ZerosFrom(void* object, std::size_t from) {
  if (object == nullptr) return nullptr;
  const std::size_t usable = manager.malloc_usable_size(object);
  if (usable > from) memset(static_cast<char*>(object) + from, 0, usable - from);
  return object;
}

inline void* AlignedZeros(std::size_t alignment, std::size_t bytes) {
  if (alignment <= kUsualAlignment) return ZerosFrom(manager.calloc(1, bytes), bytes);
  return ZerosFrom(Aligned(alignment, bytes), 0);
}

// Never frees: glibc takes a size of 0 for that, and these allocators do not.
inline void* Resized(void* old, std::size_t bytes) {
  return manager.realloc(old, bytes + (bytes == 0));
}

inline void* AlignedResized(void* old, std::size_t alignment, std::size_t bytes) {
  if (old == nullptr) return Aligned(alignment, bytes);
  if (alignment <= kUsualAlignment) return Resized(old, bytes);
  const std::size_t had = manager.malloc_usable_size(old);
  if (bytes <= had && bytes >= had / 2 && reinterpret_cast<std::uintptr_t>(old) % alignment == 0)
    return old;
  void* const object = Aligned(alignment, bytes);
  if (object == nullptr) return nullptr;
  memcpy(object, old, had < bytes ? had : bytes);
  manager.free(old);
  return object;
}

inline void* AlignedResizedZeros(void* old, std::size_t alignment, std::size_t bytes) {
  const std::size_t had = old == nullptr ? 0 : manager.malloc_usable_size(old);
  return ZerosFrom(AlignedResized(old, alignment, bytes), had);
}

// ---- of several allocators ----

inline void* AlignedFirst(std::size_t alignment, std::size_t bytes) {
  return Aligned(alignment, bytes);
}
inline void* AlignedLast(std::size_t bytes, std::size_t alignment) {
  return Aligned(alignment, bytes);
}
inline void* ZerosLast(std::size_t bytes, std::size_t alignment) {
  return AlignedZeros(alignment, bytes);
}
inline void* ZerosFirst(std::size_t alignment, std::size_t bytes) {
  return AlignedZeros(alignment, bytes);
}
inline void* Zeros(std::size_t bytes) { return AlignedZeros(1, bytes); }
inline void* Many(std::size_t count, std::size_t bytes) {
  return Overflows(count, bytes) ? nullptr : manager.malloc(count * bytes);
}
inline void* ManyResized(void* old, std::size_t count, std::size_t bytes) {
  return Overflows(count, bytes) ? nullptr : Resized(old, count * bytes);
}
inline void* ResizedOrFreed(void* old, std::size_t bytes) {
  void* const object = Resized(old, bytes);
  if (object == nullptr) manager.free(old);
  return object;
}
inline void* NeverInPlace(void*, std::size_t) { return nullptr; }
inline char* Copy(const char* text) {
  if (text == nullptr) return nullptr;
  const std::size_t bytes = strlen(text) + 1;
  void* const object = manager.malloc(bytes);
  return object == nullptr ? nullptr : static_cast<char*>(memcpy(object, text, bytes));
}
inline char* CopySome(const char* text, std::size_t most) {
  if (text == nullptr) return nullptr;
  const std::size_t length = strnlen(text, most);
  auto* const object = static_cast<char*>(manager.malloc(length + 1));
  if (object == nullptr) return nullptr;
  memcpy(object, text, length);
  object[length] = '\0';
  return object;
}

// ---- jemalloc's, whose flags are the logarithm of the alignment, and whether it is zeroed ----

struct Flags {
  explicit Flags(int flags)
      : alignment(std::size_t{1} << (flags & 63)), is_zeroed((flags & 64) != 0) {}
  std::size_t alignment;
  bool is_zeroed;
};

inline void* Mallocx(std::size_t bytes, int flags) {
  const Flags given(flags);
  return given.is_zeroed ? AlignedZeros(given.alignment, bytes) : Aligned(given.alignment, bytes);
}
inline void* Rallocx(void* old, std::size_t bytes, int flags) {
  const Flags given(flags);
  return given.is_zeroed ? AlignedResizedZeros(old, given.alignment, bytes)
                         : AlignedResized(old, given.alignment, bytes);
}
inline std::size_t Nallocx(std::size_t bytes, int flags) {
  const std::size_t alignment = Flags(flags).alignment;
  return (bytes + alignment - 1) & ~(alignment - 1);
}

// ---- mimalloc's ----

inline void* ManyZerosAligned(std::size_t count, std::size_t bytes, std::size_t alignment) {
  return Overflows(count, bytes) ? nullptr : AlignedZeros(alignment, count * bytes);
}
inline void* ResizedAligned(void* old, std::size_t bytes, std::size_t alignment) {
  return AlignedResized(old, alignment, bytes);
}
inline void* ResizedZeros(void* old, std::size_t bytes) {
  return AlignedResizedZeros(old, 1, bytes);
}
inline void* ResizedZerosAligned(void* old, std::size_t bytes, std::size_t alignment) {
  return AlignedResizedZeros(old, alignment, bytes);
}
inline void* ManyResizedZeros(void* old, std::size_t count, std::size_t bytes) {
  return Overflows(count, bytes) ? nullptr : AlignedResizedZeros(old, 1, count * bytes);
}
inline void* ManyResizedZerosAligned(void* old, std::size_t count, std::size_t bytes,
                                     std::size_t alignment) {
  return Overflows(count, bytes) ? nullptr : AlignedResizedZeros(old, alignment, count * bytes);
}

// ---- operator new, also by mimalloc's names ----

inline void* OrFail(void* object) {
  if (object == nullptr) FailToAllocate();
  return object;
}
inline void* New(std::size_t bytes) { return OrFail(manager.malloc(bytes)); }
inline void* NewAligned(std::size_t bytes, std::size_t alignment) {
  return OrFail(Aligned(alignment, bytes));
}
inline void* NewMany(std::size_t count, std::size_t bytes) { return OrFail(Many(count, bytes)); }
inline void* NewResized(void* old, std::size_t bytes) { return OrFail(Resized(old, bytes)); }
inline void* NewManyResized(void* old, std::size_t count, std::size_t bytes) {
  return OrFail(ManyResized(old, count, bytes));
}

// ---- those of snmalloc for Rust, and of rpmalloc ----

inline void* RustResized(void* old, std::size_t alignment, std::size_t, std::size_t bytes) {
  return AlignedResized(old, alignment, bytes);
}
inline void* ManyZerosAlignedFirst(std::size_t alignment, std::size_t count, std::size_t bytes) {
  return ManyZerosAligned(count, bytes, alignment);
}
// With sizes and flags behind, of which the last, not to keep what is in it, may be left out.
inline void* ResizedAlignedFirst(void* old, std::size_t alignment, std::size_t bytes) {
  return AlignedResized(old, alignment, bytes);
}

// ---- the tables ----

enum class Role : std::uint8_t { kOther, kAllocates, kFrees };

// `standard` is the function of the family that means the same; `function` serves where there is
// none.
struct Entry {
  const char* name;
  Role role;
  const char* standard;
  const void* (*function)();
};

// A constant, which an address of any type cannot be: this is read before the constructors run.
template <auto kFunction>
const void* Served() {
  return reinterpret_cast<const void*>(kFunction);
}

struct Name {
  template <std::size_t kBytes>
  consteval Name(const char (&name)[kBytes]) {
    for (std::size_t at = 0; at < kBytes; ++at) text[at] = name[at];
  }
  char text[32] = {};
};

template <Name kName>
[[noreturn]] void Refused() {
  Refuse(kName.text);
}

// A function of mimalloc that has the heap to allocate from as its first argument.
template <auto kFunction>
struct OfHeap;
template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct OfHeap<kFunction> {
  static Result Call(void*, Arguments... arguments) { return kFunction(arguments...); }
};

inline void* Malloc(std::size_t bytes) { return manager.malloc(bytes); }
inline void* Calloc(std::size_t count, std::size_t bytes) {
  return ManyZerosAligned(count, bytes, 1);
}

inline constexpr Entry kStandard[] = {
    {"malloc", Role::kAllocates, "malloc", nullptr},
    {"calloc", Role::kAllocates, "calloc", nullptr},
    {"realloc", Role::kAllocates, "realloc", nullptr},
    {"reallocarray", Role::kAllocates, nullptr, Served<&ManyResized>},
    {"memalign", Role::kAllocates, "memalign", nullptr},
    {"aligned_alloc", Role::kAllocates, "aligned_alloc", nullptr},
    {"posix_memalign", Role::kAllocates, "posix_memalign", nullptr},
    {"valloc", Role::kAllocates, "valloc", nullptr},
    {"pvalloc", Role::kAllocates, "pvalloc", nullptr},
    {"free", Role::kFrees, "free", nullptr},
    {"cfree", Role::kFrees, "free", nullptr},
    {"free_sized", Role::kFrees, "free", nullptr},
    {"free_aligned_sized", Role::kFrees, "free", nullptr},
    {"malloc_usable_size", Role::kOther, "malloc_usable_size", nullptr},
};

inline constexpr Entry kJemalloc[] = {
    {"mallocx", Role::kAllocates, nullptr, Served<&Mallocx>},
    {"rallocx", Role::kAllocates, nullptr, Served<&Rallocx>},
    {"xallocx", Role::kOther, "malloc_usable_size", nullptr},
    {"sallocx", Role::kOther, "malloc_usable_size", nullptr},
    {"nallocx", Role::kOther, nullptr, Served<&Nallocx>},
    {"dallocx", Role::kFrees, "free", nullptr},
    {"sdallocx", Role::kFrees, "free", nullptr},
};

inline constexpr Entry kMimalloc[] = {
    {"calloc", Role::kAllocates, nullptr, Served<&Calloc>},
    {"realloc", Role::kAllocates, nullptr, Served<&Resized>},
    {"malloc_small", Role::kAllocates, "malloc", nullptr},
    {"zalloc", Role::kAllocates, nullptr, Served<&Zeros>},
    {"zalloc_small", Role::kAllocates, nullptr, Served<&Zeros>},
    {"mallocn", Role::kAllocates, nullptr, Served<&Many>},
    {"reallocn", Role::kAllocates, nullptr, Served<&ManyResized>},
    {"reallocf", Role::kAllocates, nullptr, Served<&ResizedOrFreed>},
    {"rezalloc", Role::kAllocates, nullptr, Served<&ResizedZeros>},
    {"recalloc", Role::kAllocates, nullptr, Served<&ManyResizedZeros>},
    {"expand", Role::kOther, nullptr, Served<&NeverInPlace>},
    {"malloc_aligned", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"zalloc_aligned", Role::kAllocates, nullptr, Served<&ZerosLast>},
    {"calloc_aligned", Role::kAllocates, nullptr, Served<&ManyZerosAligned>},
    {"realloc_aligned", Role::kAllocates, nullptr, Served<&ResizedAligned>},
    {"rezalloc_aligned", Role::kAllocates, nullptr, Served<&ResizedZerosAligned>},
    {"recalloc_aligned", Role::kAllocates, nullptr, Served<&ManyResizedZerosAligned>},
    {"strdup", Role::kAllocates, nullptr, Served<&Copy>},
    {"strndup", Role::kAllocates, nullptr, Served<&CopySome>},
    {"new", Role::kAllocates, nullptr, Served<&New>},
    {"new_nothrow", Role::kAllocates, "malloc", nullptr},
    {"new_aligned", Role::kAllocates, nullptr, Served<&NewAligned>},
    {"new_aligned_nothrow", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"new_n", Role::kAllocates, nullptr, Served<&NewMany>},
    {"new_realloc", Role::kAllocates, nullptr, Served<&NewResized>},
    {"new_reallocn", Role::kAllocates, nullptr, Served<&NewManyResized>},
    {"free_size", Role::kFrees, "free", nullptr},
    {"free_size_aligned", Role::kFrees, "free", nullptr},
    {"free_aligned", Role::kFrees, "free", nullptr},
    {"usable_size", Role::kOther, "malloc_usable_size", nullptr},
    {"malloc_size", Role::kOther, "malloc_usable_size", nullptr},
    {"heap_malloc", Role::kAllocates, nullptr, Served<&OfHeap<&Malloc>::Call>},
    {"heap_malloc_small", Role::kAllocates, nullptr, Served<&OfHeap<&Malloc>::Call>},
    {"heap_calloc", Role::kAllocates, nullptr, Served<&OfHeap<&Calloc>::Call>},
    {"heap_zalloc", Role::kAllocates, nullptr, Served<&OfHeap<&Zeros>::Call>},
    {"heap_mallocn", Role::kAllocates, nullptr, Served<&OfHeap<&Many>::Call>},
    {"heap_realloc", Role::kAllocates, nullptr, Served<&OfHeap<&Resized>::Call>},
    {"heap_reallocn", Role::kAllocates, nullptr, Served<&OfHeap<&ManyResized>::Call>},
    {"heap_reallocf", Role::kAllocates, nullptr, Served<&OfHeap<&ResizedOrFreed>::Call>},
    {"heap_rezalloc", Role::kAllocates, nullptr, Served<&OfHeap<&ResizedZeros>::Call>},
    {"heap_recalloc", Role::kAllocates, nullptr, Served<&OfHeap<&ManyResizedZeros>::Call>},
    {"heap_malloc_aligned", Role::kAllocates, nullptr, Served<&OfHeap<&AlignedLast>::Call>},
    {"heap_zalloc_aligned", Role::kAllocates, nullptr, Served<&OfHeap<&ZerosLast>::Call>},
    {"heap_calloc_aligned", Role::kAllocates, nullptr, Served<&OfHeap<&ManyZerosAligned>::Call>},
    {"heap_realloc_aligned", Role::kAllocates, nullptr, Served<&OfHeap<&ResizedAligned>::Call>},
    {"heap_strdup", Role::kAllocates, nullptr, Served<&OfHeap<&Copy>::Call>},
    {"heap_strndup", Role::kAllocates, nullptr, Served<&OfHeap<&CopySome>::Call>},
    {"heap_alloc_new", Role::kAllocates, nullptr, Served<&OfHeap<&New>::Call>},
    {"heap_alloc_new_n", Role::kAllocates, nullptr, Served<&OfHeap<&NewMany>::Call>},
    {"heap_destroy", Role::kOther, nullptr, Served<&Refused<"mi_heap_destroy">>},
    {"malloc_aligned_at", Role::kOther, nullptr, Served<&Refused<"mi_malloc_aligned_at">>},
    {"zalloc_aligned_at", Role::kOther, nullptr, Served<&Refused<"mi_zalloc_aligned_at">>},
    {"calloc_aligned_at", Role::kOther, nullptr, Served<&Refused<"mi_calloc_aligned_at">>},
    {"realloc_aligned_at", Role::kOther, nullptr, Served<&Refused<"mi_realloc_aligned_at">>},
    {"heap_malloc_aligned_at", Role::kOther, nullptr,
     Served<&Refused<"mi_heap_malloc_aligned_at">>},
    {"heap_zalloc_aligned_at", Role::kOther, nullptr,
     Served<&Refused<"mi_heap_zalloc_aligned_at">>},
    {"heap_realloc_aligned_at", Role::kOther, nullptr,
     Served<&Refused<"mi_heap_realloc_aligned_at">>},
};

inline constexpr Entry kSnmalloc[] = {
    {"rust_alloc", Role::kAllocates, nullptr, Served<&AlignedFirst>},
    {"rust_alloc_zeroed", Role::kAllocates, nullptr, Served<&ZerosFirst>},
    {"rust_realloc", Role::kAllocates, nullptr, Served<&RustResized>},
    {"rust_dealloc", Role::kFrees, "free", nullptr},
    {"rust_usable_size", Role::kOther, "malloc_usable_size", nullptr},
};

inline constexpr Entry kRpmalloc[] = {
    {"aligned_zalloc", Role::kAllocates, nullptr, Served<&ZerosFirst>},
    {"aligned_calloc", Role::kAllocates, nullptr, Served<&ManyZerosAlignedFirst>},
    {"aligned_realloc", Role::kAllocates, nullptr, Served<&ResizedAlignedFirst>},
    {"malloc_heap_alloc", Role::kOther, nullptr, Served<&Refused<"rpmalloc_heap_alloc">>},
    {"malloc_heap_calloc", Role::kOther, nullptr, Served<&Refused<"rpmalloc_heap_calloc">>},
    {"malloc_heap_aligned_alloc", Role::kOther, nullptr,
     Served<&Refused<"rpmalloc_heap_aligned_alloc">>},
    {"malloc_heap_realloc", Role::kOther, nullptr, Served<&Refused<"rpmalloc_heap_realloc">>},
    {"malloc_heap_free_all", Role::kOther, nullptr, Served<&Refused<"rpmalloc_heap_free_all">>},
};

inline constexpr Entry kTcmalloc[] = {
    {"malloc_size", Role::kOther, "malloc_usable_size", nullptr},
    {"new", Role::kAllocates, nullptr, Served<&New>},
    {"newarray", Role::kAllocates, nullptr, Served<&New>},
    {"malloc_skip_new_handler", Role::kAllocates, "malloc", nullptr},
    {"new_nothrow", Role::kAllocates, "malloc", nullptr},
    {"newarray_nothrow", Role::kAllocates, "malloc", nullptr},
    {"new_aligned", Role::kAllocates, nullptr, Served<&NewAligned>},
    {"newarray_aligned", Role::kAllocates, nullptr, Served<&NewAligned>},
    {"new_aligned_nothrow", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"newarray_aligned_nothrow", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"delete", Role::kFrees, "free", nullptr},
    {"deletearray", Role::kFrees, "free", nullptr},
    {"delete_sized", Role::kFrees, "free", nullptr},
    {"deletearray_sized", Role::kFrees, "free", nullptr},
    {"delete_aligned", Role::kFrees, "free", nullptr},
    {"deletearray_aligned", Role::kFrees, "free", nullptr},
};

inline constexpr Entry kDlmalloc[] = {
    {"realloc_in_place", Role::kOther, nullptr, Served<&NeverInPlace>},
    {"independent_calloc", Role::kOther, nullptr, Served<&Refused<"dlindependent_calloc">>},
    {"independent_comalloc", Role::kOther, nullptr, Served<&Refused<"dlindependent_comalloc">>},
    {"bulk_free", Role::kOther, nullptr, Served<&Refused<"dlbulk_free">>},
};

// As they are called in the object files of C++.
inline constexpr Entry kOperators[] = {
    {"_Znwm", Role::kAllocates, nullptr, Served<&New>},
    {"_Znam", Role::kAllocates, nullptr, Served<&New>},
    {"_ZnwmRKSt9nothrow_t", Role::kAllocates, nullptr, Served<&Malloc>},
    {"_ZnamRKSt9nothrow_t", Role::kAllocates, nullptr, Served<&Malloc>},
    {"_ZnwmSt11align_val_t", Role::kAllocates, nullptr, Served<&NewAligned>},
    {"_ZnamSt11align_val_t", Role::kAllocates, nullptr, Served<&NewAligned>},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", Role::kAllocates, nullptr, Served<&AlignedLast>},
    {"_ZdlPv", Role::kFrees, "free", nullptr},
    {"_ZdaPv", Role::kFrees, "free", nullptr},
    {"_ZdlPvm", Role::kFrees, "free", nullptr},
    {"_ZdaPvm", Role::kFrees, "free", nullptr},
    {"_ZdlPvRKSt9nothrow_t", Role::kFrees, "free", nullptr},
    {"_ZdaPvRKSt9nothrow_t", Role::kFrees, "free", nullptr},
    {"_ZdlPvSt11align_val_t", Role::kFrees, "free", nullptr},
    {"_ZdaPvSt11align_val_t", Role::kFrees, "free", nullptr},
    {"_ZdlPvmSt11align_val_t", Role::kFrees, "free", nullptr},
    {"_ZdaPvmSt11align_val_t", Role::kFrees, "free", nullptr},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", Role::kFrees, "free", nullptr},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", Role::kFrees, "free", nullptr},
};

}  // namespace tare::runner
