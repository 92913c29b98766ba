// Bumps a pointer through one piece of memory. Freeing the newest object moves it back over all
// freed ones; what is freed below a live object waits. As 197.parser of SPECint2000 allocates.

#pragma once

#include "tare/layers/concepts.hpp"

namespace tare::layers {

template <MemorySource Source, std::size_t kBytes>
class StackLike : private Source {
 public:
  StackLike() = default;
  StackLike(const StackLike&) = delete;
  StackLike& operator=(const StackLike&) = delete;
  ~StackLike() {
    if (memory_ != nullptr) Source::Give(memory_, kBytes);
  }

  void* Allocate(std::size_t bytes) {
    if (memory_ == nullptr && !Begin()) return nullptr;
    const auto left = static_cast<std::size_t>(memory_ + kBytes - position_);
    if (bytes > kBytes || RoundUp(bytes, kAlignment) + sizeof(Header) > left) return nullptr;
    auto* const header = reinterpret_cast<Header*>(position_);
    *header = {newest_, bytes, false};
    newest_ = header;
    position_ += sizeof(Header) + RoundUp(bytes, kAlignment);
    return header + 1;
  }

  void Free(void* object) {
    (static_cast<Header*>(object) - 1)->freed = true;
    while (newest_ != nullptr && newest_->freed) {
      position_ = reinterpret_cast<char*>(newest_);
      newest_ = newest_->before;
    }
  }

  std::size_t Size(void* object) { return (static_cast<Header*>(object) - 1)->bytes; }

  void Clear() {
    position_ = memory_;
    newest_ = nullptr;
  }

 private:
  struct alignas(kAlignment) Header {
    Header* before;
    std::size_t bytes;
    bool freed;
  };

  bool Begin() {
    memory_ = static_cast<char*>(Source::Take(kBytes));
    position_ = memory_;
    return memory_ != nullptr;
  }

  char* memory_ = nullptr;
  char* position_ = nullptr;
  Header* newest_ = nullptr;
};

}  // namespace tare::layers
