// Memory that rises, as old systems gave it at the program's break: more of it lies right behind
// what there is, so that a heap can join the two. Each heap has its own.

#pragma once

#include <sys/mman.h>

#include <new>
#include <utility>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

class Rising {
 public:
  static constexpr bool kRises = true;

  Rising() = default;
  Rising(const Rising&) = delete;
  Rising& operator=(const Rising&) = delete;
  ~Rising() {
    while (segments_ != nullptr) {
      Segment* const segment = std::exchange(segments_, segments_->before);
      munmap(segment, segment->bytes);
    }
  }

  // Whole pages begin at a page.
  void* Take(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const std::size_t needed = RoundUp(bytes, kAlignment);
    const std::size_t alignment = bytes % kPage == 0 ? kPage : kAlignment;
    if (!Fits(needed, alignment) && !Grow(needed)) return nullptr;
    const std::uintptr_t memory = RoundUp(next_, alignment);
    next_ = memory + needed;
    return reinterpret_cast<void*>(memory);
  }

  // What was taken last is taken again. The rest stays as it is.
  void Give(void* memory, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(memory);
    if (first + RoundUp(bytes, kAlignment) == next_) next_ = first;
  }

 private:
  struct alignas(kAlignment) Segment {
    Segment* before;
    std::size_t bytes;
  };

  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kStep = 1 << 20;
  static constexpr std::size_t kRoom = std::size_t{1} << 40;

  bool Fits(std::size_t needed, std::size_t alignment) const {
    return RoundUp(next_, alignment) + needed <= limit_;
  }

  static std::uintptr_t Map(std::uintptr_t wanted, std::size_t bytes, int access) {
    void* const memory =
        mmap(reinterpret_cast<void*>(wanted), bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? 0 : reinterpret_cast<std::uintptr_t>(memory);
  }

  // The low end of much that is free. The kernel puts what others map at its high end.
  static std::uintptr_t PlaceWithRoom() {
    for (std::size_t bytes = kRoom; bytes >= kStep; bytes /= 4) {
      const std::uintptr_t memory = Map(0, bytes, PROT_NONE);
      if (memory == 0) continue;
      munmap(reinterpret_cast<void*>(memory), bytes);
      return memory;
    }
    return 0;
  }

  bool Grow(std::size_t needed) {
    const std::size_t bytes = RoundUp(needed + kPage + sizeof(Segment), kStep);
    const std::uintptr_t memory =
        Map(limit_ == 0 ? PlaceWithRoom() : limit_, bytes, PROT_READ | PROT_WRITE);
    if (memory == 0) return false;
    if (memory < limit_) {
      munmap(reinterpret_cast<void*>(memory), bytes);
      return false;
    }
    if (memory == limit_) {
      segments_->bytes += bytes;
    } else {
      segments_ = new (reinterpret_cast<void*>(memory)) Segment{segments_, bytes};
      next_ = memory + sizeof(Segment);
    }
    limit_ = memory + bytes;
    return true;
  }

  std::uintptr_t next_ = 0;
  std::uintptr_t limit_ = 0;
  Segment* segments_ = nullptr;
};

static_assert(RisingSource<Rising>);

}  // namespace tare::layers
