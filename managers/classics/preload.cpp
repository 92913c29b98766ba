// The malloc family over one classic, TARE_CLASSIC of the header TARE_CLASSIC_HEADER.

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tare/layers/aligned.hpp"
#include "tare/layers/pages.hpp"
#include "tare/layers/rising.hpp"
#include TARE_CLASSIC_HEADER

namespace {

using namespace tare::layers;

using Heap = Aligned<tare::classics::TARE_CLASSIC<TARE_CLASSIC_MEMORY>>;
static_assert(SizedHeap<Heap> && ForkSafe<Heap>);

// Ready before the first constructor runs, and never gone: programs allocate before and after.
union Immortal {
  constexpr Immortal() : heap() {}
  ~Immortal() {}
  Heap heap;
};
constinit Immortal immortal;
Heap& heap = immortal.heap;

void* OrNoMemory(void* object) {
  if (object == nullptr) errno = ENOMEM;
  return object;
}

void* Allocate(std::size_t bytes) { return OrNoMemory(heap.Allocate(bytes)); }

template <typename Tested>
bool StaysWhereItIs(Tested& tested, void* object, std::size_t had, std::size_t bytes) {
  if (bytes <= had) return bytes >= had / 2;
  if constexpr (Resizable<Tested>) return tested.Resize(object, bytes);
  return false;
}

[[gnu::constructor]] void GuardForks() {
  pthread_atfork([] { heap.BeforeFork(); }, [] { heap.AfterFork(); }, [] { heap.AfterFork(); });
}

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) { return Allocate(bytes); }

void free(void* object) {
  if (object != nullptr) heap.Free(object);
}

void* calloc(std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return OrNoMemory(nullptr);
  void* const object = Allocate(all);
  return object == nullptr ? nullptr : std::memset(object, 0, all);
}

void* realloc(void* object, std::size_t bytes) {
  if (object == nullptr) return Allocate(bytes);
  if (bytes == 0) {
    heap.Free(object);
    return nullptr;
  }
  const std::size_t had = heap.Size(object);
  if (StaysWhereItIs(heap, object, had, bytes)) return object;
  void* const moved = Allocate(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, object, std::min(had, bytes));
  heap.Free(object);
  return moved;
}

void* reallocarray(void* object, std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  if (__builtin_mul_overflow(count, bytes, &all)) return OrNoMemory(nullptr);
  return realloc(object, all);
}

// As the C library's, which takes any alignment for the next power of two.
void* memalign(std::size_t alignment, std::size_t bytes) {
  if (alignment > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return nullptr;
  }
  return OrNoMemory(heap.AllocateAligned(std::bit_ceil(alignment), bytes));
}

std::size_t malloc_usable_size(void* object) { return object == nullptr ? 0 : heap.Size(object); }

}  // extern "C"
