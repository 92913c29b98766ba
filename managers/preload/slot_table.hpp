// Which slots of a header have a thread: each has one of its own, and once all are used, that of
// one that has ended.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tare {

template <typename Slot, std::size_t kMost>
class SlotTable {
 public:
  // One of `slots`, of which `used` were used so far; nullptr when each has a thread.
  Slot* Take(Slot* slots, std::atomic<std::uint64_t>& used) {
    const std::uint64_t next = used.load(std::memory_order_relaxed);
    if (next < kMost) {
      used.store(next + 1, std::memory_order_relaxed);
      return slots + next;
    }
    return ended_ == 0 ? nullptr : slots + numbers_[--ended_];
  }

  void Give(const Slot* slots, const Slot* slot) {
    numbers_[ended_++] = static_cast<std::uint8_t>(slot - slots);
  }

  // For the slots of a new header.
  void Clear() { ended_ = 0; }

 private:
  static_assert(kMost <= 256);
  std::uint8_t numbers_[kMost]{};  // of slots whose threads have ended
  std::size_t ended_ = 0;
};

}  // namespace tare
