// Objects that a thread freed are kept for it, without the lock of the heap below, of which there
// is one in a process. They come by size; a thread that has enough of one size passes on.

#pragma once

#include <algorithm>
#include <array>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <SizedHeap Super, std::size_t kLists = 64, std::size_t kMost = 128>
class ThreadCache {
 public:
  static void* Allocate(std::size_t bytes) {
    if (bytes > kLists * kAlignment) return heap.Allocate(bytes);
    const std::size_t number = (std::max(bytes, kLeast) - 1) / kAlignment;
    List& list = cache.lists[number];
    if (list.first == nullptr) return heap.Allocate((number + 1) * kAlignment);
    --list.objects;
    return Pop(list);
  }

  static void Free(void* object) {
    const std::size_t bytes = heap.Size(object);
    if (bytes > kLists * kAlignment || bytes < kAlignment) return heap.Free(object);
    List& list = cache.lists[bytes / kAlignment - 1];
    if (list.objects == kMost) return heap.Free(object);
    ++list.objects;
    *static_cast<void**>(object) = list.first;
    list.first = object;
  }

  static std::size_t Size(void* object) { return heap.Size(object); }

 private:
  static constexpr std::size_t kLeast = std::max<std::size_t>(kLeastOf<Super>, 1);

  struct List {
    void* first = nullptr;
    std::size_t objects = 0;
  };
  struct Cache {
    ~Cache() {
      for (List& list : lists)
        while (list.first != nullptr) heap.Free(Pop(list));
    }
    std::array<List, kLists> lists;
  };

  static void* Pop(List& list) {
    void* const object = list.first;
    list.first = *static_cast<void**>(object);
    return object;
  }

  static inline Super heap;
  static inline thread_local Cache cache;
};

}  // namespace tare::layers
