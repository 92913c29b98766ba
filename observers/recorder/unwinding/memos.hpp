// Loops come back to the same calls at the same place of the stack: so what a walk found is
// remembered, and holds as long as every return address is where it was.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "step.hpp"

namespace tare::recorder {

// A stack that was found from `caller`: it is the same when all these words are.
struct StackMemo {
  struct Word {
    std::uintptr_t at, is;
  };
  static constexpr std::size_t kMostWords = 93;

  bool IsOf(const Caller& now) const {
    if (caller.call != now.call || caller.stack_pointer != now.stack_pointer || node == 0 ||
        (needs_frame && caller.frame_pointer != now.frame_pointer))
      return false;
    std::uintptr_t changed = 0;
    for (std::size_t i = 0; i < count; ++i) changed |= WordAt(words[i].at) ^ words[i].is;
    return changed == 0;
  }

  Caller caller;
  std::uint32_t node;  // 0: the words are not known
  bool needs_frame;
  std::size_t count;
  Word words[kMostWords];
};

class StackMemos {
 public:
  // The node of the stack, or 0.
  std::uint32_t Find(const Caller& caller) const {
    for (const StackMemo& memo : sets_[SetOf(Mixed(caller))].memos)
      if (memo.IsOf(caller)) [[likely]]
        return memo.node;
    return 0;
  }

  // Room for the stack of a caller that has come before, lately; nullptr for one that has not.
  StackMemo* RoomFor(const Caller& caller) {
    const std::uint64_t mixed = Mixed(caller);
    std::uint64_t& seen = seen_[(mixed >> 40) % kSeen];
    if (std::exchange(seen, mixed) != mixed) return nullptr;
    Set& set = sets_[SetOf(mixed)];
    StackMemo& memo = set.memos[set.next++ % kInSet];
    has_any_ = true;
    memo.caller = caller;
    return &memo;
  }

  void Forget() {
    if (!std::exchange(has_any_, false)) return;  // the pages of the sets stay untouched
    for (Set& set : sets_)
      for (StackMemo& memo : set.memos) memo.node = 0;
  }

 private:
  static constexpr std::size_t kSets = 16, kInSet = 4;
  static constexpr std::size_t kSeen = 64;

  // A function that frees, say, is called from several places.
  struct Set {
    StackMemo memos[kInSet];
    std::size_t next;
  };

  static std::uint64_t Mixed(const Caller& caller) {
    return (caller.call ^ (caller.stack_pointer << 16)) * 0x9E3779B97F4A7C15u;
  }
  static std::size_t SetOf(std::uint64_t mixed) { return (mixed >> 32) % kSets; }

  bool has_any_;
  std::uint64_t seen_[kSeen];
  Set sets_[kSets];
};

}  // namespace tare::recorder
