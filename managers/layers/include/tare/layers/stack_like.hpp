// Bumps a pointer through one piece of memory. Freeing the newest object moves it back over all
// freed ones; what is freed below a live object waits. As 197.parser of SPECint2000 allocates.

#pragma once

#include <new>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <RisingSource Source, std::size_t kMost = SIZE_MAX / 4, std::size_t kStep = 64 << 10>
class StackLike : private Source {
 public:
  StackLike() = default;
  StackLike(const StackLike&) = delete;
  StackLike& operator=(const StackLike&) = delete;

  void* Allocate(std::size_t bytes) {
    if (bytes > kMost) return nullptr;
    const std::size_t needed = sizeof(Header) + RoundUp(bytes, kAlignment);
    if (needed > static_cast<std::size_t>(limit_ - position_) && !Grow(needed)) return nullptr;
    newest_ = new (position_) Header{newest_, 2 * bytes};
    position_ += needed;
    return newest_ + 1;
  }

  void Free(void* object) {
    HeaderOf(object)->word |= 1;
    while (newest_ != nullptr && (newest_->word & 1) != 0) {
      position_ = reinterpret_cast<char*>(newest_);
      newest_ = newest_->before;
    }
  }

  std::size_t Size(void* object) { return HeaderOf(object)->word / 2; }

  void Clear() {
    position_ = memory_;
    newest_ = nullptr;
  }

 private:
  struct alignas(kAlignment) Header {
    Header* before;
    std::size_t word;  // twice the bytes, and whether it was freed
  };

  static Header* HeaderOf(void* object) { return static_cast<Header*>(object) - 1; }

  // False also when the memory would not be in one piece any more.
  bool Grow(std::size_t needed) {
    const std::size_t missing = needed - static_cast<std::size_t>(limit_ - position_);
    const std::size_t bytes = RoundUp(missing, kStep);
    if (static_cast<std::size_t>(limit_ - memory_) + bytes > kMost) return false;
    auto* const memory = static_cast<char*>(Source::Take(bytes));
    if (memory == nullptr || (memory_ != nullptr && memory != limit_)) return false;
    if (memory_ == nullptr) memory_ = position_ = memory;
    limit_ = memory + bytes;
    return true;
  }

  char* memory_ = nullptr;
  char* position_ = nullptr;
  char* limit_ = nullptr;
  Header* newest_ = nullptr;
};

}  // namespace tare::layers
