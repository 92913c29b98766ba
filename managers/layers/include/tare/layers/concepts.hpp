// What a layer may ask of the one below it.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tare::layers {

inline constexpr std::size_t kAlignment = 16;

constexpr std::size_t RoundUp(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Memory whose size is known when it is given back.
template <typename T>
concept MemorySource = requires(T source, std::size_t bytes, void* memory) {
  { source.Take(bytes) } -> std::same_as<void*>;
  source.Give(memory, bytes);
};

// Each piece lies above those taken before, as at the program's break; mostly right behind the
// last.
template <typename T>
concept RisingSource = MemorySource<T> && requires { requires T::kRises; };

// Gives out objects, aligned to kAlignment; nullptr when memory is short.
template <typename T>
concept ObjectAllocator = requires(T allocator, std::size_t bytes) {
  { allocator.Allocate(bytes) } -> std::same_as<void*>;
};

// Takes them back one by one.
template <typename T>
concept Heap = ObjectAllocator<T> && requires(T heap, void* object) { heap.Free(object); };

// Knows how large an object is.
template <typename T>
concept Sized = requires(T heap, void* object) {
  { heap.Size(object) } -> std::same_as<std::size_t>;
};

template <typename T>
concept SizedHeap = Heap<T> && Sized<T>;

// The bytes of the smallest object that a heap gives, whatever is asked for.
template <typename T>
inline constexpr std::size_t kLeastOf = 0;
template <typename T>
  requires requires { T::kLeastObject; }
inline constexpr std::size_t kLeastOf<T> = T::kLeastObject;

// May make an object larger where it lies; says whether it did.
template <typename T>
concept Resizable = requires(T heap, void* object, std::size_t bytes) {
  { heap.Resize(object, bytes) } -> std::same_as<bool>;
};

// Can be made quiet for a fork, so that the child finds no lock held by a thread it does not have.
template <typename T>
concept ForkSafe = requires(T heap) {
  heap.BeforeFork();
  heap.AfterFork();
};

// Frees all that it gave out.
template <typename T>
concept Clearable = ObjectAllocator<T> && requires(T allocator) { allocator.Clear(); };

template <typename T>
concept Lockable = requires(T lock) {
  lock.lock();
  lock.unlock();
};

}  // namespace tare::layers
