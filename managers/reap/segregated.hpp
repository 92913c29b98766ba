// One reap, as one thread at a time uses it, without headers: memory is divided by size instead.
//
// A class of sizes bumps in a span of its own, a page for small blocks and a chunk for others, and
// has a list of what was freed one by one. What size an object has is told by the page it lies in,
// in the table at the beginning of its chunk. Objects lie in the first 64 KiB of a chunk, so that
// the table is found from the address.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>

#include "owned_chunks.hpp"

namespace tare::reap {

inline constexpr std::size_t kLargestInPage = 512;  // larger blocks have a chunk for each class
inline constexpr std::size_t kPages = kSmallestChunk / kPage;

// Of sizes: steps of 16 bytes up to 128, and four for each doubling above.
inline constexpr std::size_t kFineSteps = 8;
inline constexpr std::size_t kClasses = kFineSteps + 4 * 8;
inline constexpr std::uint8_t kLargeClass = kClasses;

constexpr std::size_t ComputedClassFor(std::size_t size) {
  const std::size_t last = size == 0 ? 0 : size - 1;
  if (last < kFineSteps * kUnit) return last / kUnit;
  const auto power = static_cast<std::size_t>(std::bit_width(last) - 1);
  return kFineSteps + 4 * (power - 7) + (last >> (power - 2) & 3);
}

constexpr std::size_t ComputedBlockOf(std::size_t number) {
  if (number < kFineSteps) return (number + 1) * kUnit;
  const std::size_t power = 7 + (number - kFineSteps) / 4;
  return (5 + (number - kFineSteps) % 4) << (power - 2);
}

static_assert(ComputedClassFor(kLargestBlock) == kClasses - 1);
static_assert(ComputedBlockOf(kClasses - 1) == kLargestBlock);

inline constexpr auto kBlocks = [] {
  std::array<std::uint16_t, kClasses> blocks{};
  for (std::size_t number = 0; number < kClasses; ++number)
    blocks[number] = static_cast<std::uint16_t>(ComputedBlockOf(number));
  return blocks;
}();

// By the size in units, rounded up.
inline constexpr auto kClassNumbers = [] {
  std::array<std::uint8_t, kLargestInPage / kUnit + 1> numbers{};
  for (std::size_t units = 0; units < numbers.size(); ++units)
    numbers[units] = static_cast<std::uint8_t>(ComputedClassFor(units * kUnit));
  return numbers;
}();

constexpr std::size_t BlockOfClass(std::size_t number) { return kBlocks[number]; }

constexpr std::size_t ClassFor(std::size_t size) {
  return size <= kLargestInPage ? kClassNumbers[(size + kUnit - 1) / kUnit]
                                : ComputedClassFor(size);
}

struct SizedChunk : Chunk {
  std::uint8_t class_of_page[kPages];
};

inline SizedChunk* ChunkAround(const void* object) {
  // A large object that is aligned to chunks and more has its chunk's address before it.
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (address % kSmallestChunk == 0) [[unlikely]]
    return static_cast<SizedChunk* const*>(object)[-1];
  return reinterpret_cast<SizedChunk*>(address & ~(kSmallestChunk - 1));
}

inline std::uint8_t ClassOf(const void* object) {
  const auto page = reinterpret_cast<std::uintptr_t>(object) / kPage % kPages;
  return ChunkAround(object)->class_of_page[page];
}

struct Reap : ::reap, OwnedChunks, Relatives {
  static constexpr unsigned kOptions = REAP_SHARED;
  static constexpr std::size_t kStart = sizeof(SizedChunk);

  bool is_plain_heap = false;  // has no options
  unsigned options = 0;
  std::size_t live_bytes = 0;    // in blocks, and chunks of large objects
  std::size_t bumped_bytes = 0;  // live, or in the lists
  std::size_t next_page = 0;     // of the chunk that spans of one page are taken from
  SizedChunk* paged = nullptr;

  struct Class {
    char* freed = nullptr;  // a list
    char* position = nullptr;
    char* end = nullptr;
  } classes[kClasses];

  static Reap* Create(unsigned options) {
    auto* const reap = CreateReap<Reap>(options);
    if (reap == nullptr) return nullptr;
    reap->reap_position = reap->reap_limit = nullptr;  // so that nothing is bumped inline
    reap->is_plain_heap = options == 0;
    reap->UseFirstChunk();
    return reap;
  }

  bool IsPlainHeap() const { return is_plain_heap; }

  static void* TryBump(std::size_t) { return nullptr; }

  // nullptr when the class has no room.
  void* TryLists(std::size_t size) {
    if (size > kLargestBlock) return nullptr;
    const std::size_t number = ClassFor(size);
    const std::size_t block = BlockOfClass(number);
    Class& sizes = classes[number];
    char* object = sizes.freed;
    if (object != nullptr) {
      sizes.freed = Link(object);
    } else {
      if (block > static_cast<std::size_t>(sizes.end - sizes.position)) return nullptr;
      object = sizes.position;
      sizes.position += block;
      bumped_bytes += block;
    }
    live_bytes += block;
    return object;
  }

  void* Allocate(std::size_t size) {
    if (size > kLargestBlock) return AllocateLarge(size, kUnit);
    if (void* const object = TryLists(size)) return object;
    return AddSpan(ClassFor(size)) ? TryLists(size) : nullptr;
  }

  // Blocks of a power of two are aligned to it.
  void* AllocateAligned(std::size_t alignment, std::size_t size) {
    if (alignment <= kUnit) return Allocate(size);
    if (alignment > kLargestBlock || size > kLargestBlock) return AllocateLarge(size, alignment);
    return Allocate(std::bit_ceil(std::max(size, alignment)));
  }

  void FreeNow(void* pointer) {
    auto* const object = static_cast<char*>(pointer);
    const std::uint8_t number = ClassOf(object);
    if (number == kLargeClass) return FreeLarge(object);
    Link(object) = classes[number].freed;
    classes[number].freed = object;
    live_bytes -= BlockOfClass(number);
    if (live_bytes == 0) StartOver();
  }

  void FreeOfPlainHeap(void* object) { FreeNow(object); }
  void FreeDeferred() {}

  static std::size_t UsableSize(void* object) {
    const std::uint8_t number = ClassOf(object);
    if (number != kLargeClass) return BlockOfClass(number);
    return static_cast<std::size_t>(ChunkAround(object)->End() - static_cast<char*>(object));
  }

  // Whether `object` could be given `size` bytes where it is.
  static bool Resize(void* object, std::size_t size) {
    const std::size_t usable = UsableSize(object);
    return size <= usable && (size >= usable / 2 || usable == kUnit);
  }

  // Frees every object. The first chunk stays.
  __attribute__((noinline)) void StartOver() {
    FreeAllButFirst();
    live_bytes = 0;
    bumped_bytes = 0;
    std::fill(std::begin(classes), std::end(classes), Class{});
    UseFirstChunk();
  }

  // Gives all memory back, this reap included.
  void End() {
    FreeAllButFirst();
    root = nullptr;
    PutChunk(chunks);
  }

  void AddTo(reap_statistics& statistics) const {
    statistics.allocated += live_bytes;
    statistics.free += bumped_bytes - live_bytes;
    OwnedChunks::AddTo(statistics);
  }

 private:
  static constexpr std::size_t kLargeStart =
      RoundUp(sizeof(SizedChunk) + sizeof(SizedChunk*), kUnit);

  static char*& Link(char* object) { return *reinterpret_cast<char**>(object); }

  // Spans begin behind this reap, on the same page.
  void UseFirstChunk() {
    paged = static_cast<SizedChunk*>(chunks);
    next_page = 0;
  }

  char* FirstObjectIn(SizedChunk* chunk) {
    if (chunk->next == nullptr) return reinterpret_cast<char*>(this + 1);
    return reinterpret_cast<char*>(chunk + 1);
  }

  SizedChunk* NewChunk() {
    Chunk* const chunk = TakeSmallestChunk();
    if (chunk == nullptr || !Own(chunk, this)) return nullptr;
    OwnedChunks::AddChunk(chunk);
    return static_cast<SizedChunk*>(chunk);
  }

  __attribute__((noinline)) bool AddSpan(std::size_t number) {
    return BlockOfClass(number) <= kLargestInPage ? AddPage(number) : AddWholeChunk(number);
  }

  bool AddPage(std::size_t number) {
    if (next_page == kPages) {
      SizedChunk* const chunk = NewChunk();
      if (chunk == nullptr) return false;
      paged = chunk;
      next_page = 0;
    }
    const std::size_t page = next_page++;
    char* const begin = page == 0 ? FirstObjectIn(paged) : paged->Base() + page * kPage;
    paged->class_of_page[page] = static_cast<std::uint8_t>(number);
    UseSpan(number, begin, paged->Base() + (page + 1) * kPage);
    return true;
  }

  bool AddWholeChunk(std::size_t number) {
    SizedChunk* const chunk = NewChunk();
    if (chunk == nullptr) return false;
    memset(chunk->class_of_page, static_cast<int>(number), kPages);
    UseSpan(number, FirstObjectIn(chunk), chunk->Base() + kSmallestChunk);
    return true;
  }

  // Blocks lie at multiples of the largest power of two that divides their size.
  void UseSpan(std::size_t number, char* begin, char* end) {
    const std::size_t block = BlockOfClass(number);
    classes[number].position = AlignUp(begin, block & -block);
    classes[number].end = end;
  }

  __attribute__((noinline)) void* AllocateLarge(std::size_t size, std::size_t alignment) {
    auto* const chunk = static_cast<SizedChunk*>(AddLarge(size, alignment, kLargeStart, this));
    if (chunk == nullptr) return nullptr;
    memset(chunk->class_of_page, kLargeClass, kPages);
    char* const object = AlignUp(chunk->Base() + kLargeStart, alignment);
    reinterpret_cast<SizedChunk**>(object)[-1] = chunk;
    live_bytes += chunk->bytes;
    bumped_bytes += chunk->bytes;
    return object;
  }

  void FreeLarge(char* object) {
    Chunk* const chunk = ChunkAround(object);
    live_bytes -= chunk->bytes;
    bumped_bytes -= chunk->bytes;
    OwnedChunks::FreeLarge(chunk);
    if (live_bytes == 0) StartOver();
  }
};

static_assert(sizeof(SizedChunk) + sizeof(Reap) + 2 * kLargestInPage <= kPage);

}  // namespace tare::reap
