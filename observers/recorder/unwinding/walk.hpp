// The call stack at an event. Most of it is that of the event before: a walk goes on only until it
// meets a frame that it knows, from which on every return address is still in its place.

#pragma once

#include <cstddef>
#include <cstdint>

#include "../process.hpp"
#include "../stacks.hpp"
#include "memos.hpp"
#include "rule.hpp"
#include "step.hpp"
#include "tare/platform/frames.hpp"

namespace tare::recorder {

inline void NoteCut() { __atomic_fetch_add(&process->header->stacks_cut, 1, __ATOMIC_RELAXED); }

class Walker {
 public:
  // The node of the stack of `caller`; 0 where nothing of it can be told.
  std::uint32_t NodeAt(Stacks& stacks, const Caller& caller) {
    if (!IsAtStack(stacks, caller)) [[unlikely]]
      return 0;
    if (const std::uint32_t node = memos_.Find(caller); node != 0) [[likely]]
      return node;
    return WalkAndRemember(stacks, caller);
  }

  // The `count` calls of that stack, the innermost first, up to the first in the code from `start`
  // to `end`, without it. nullptr where there is none, or a signal's handler is in between.
  const std::uintptr_t* CallsUpTo(Stacks& stacks, const Caller& caller, std::uintptr_t start,
                                  std::uintptr_t end, std::size_t& count) {
    if (!IsAtStack(stacks, caller)) return nullptr;
    Place place = Place::Of(caller);
    const bool was_unsteady = is_unsteady_;
    bool is_found = false;
    for (count = 0; count < kDeepest; ++count) {
      is_found = place.call - start < end - start;
      if (is_found) break;
      calls_[count] = place.call;
      if (!UpToCaller(stacks, place)) break;
    }
    is_unsteady_ = was_unsteady;
    return is_found ? calls_ : nullptr;
  }

  // Of the function whose __builtin_frame_address(0) is `frame`, which is `caller` or has called
  // it, by way of others perhaps. No call where it is not found.
  Caller CallerOf(Stacks& stacks, const Caller& caller, std::uintptr_t frame) {
    if (!IsAtStack(stacks, caller)) return {};
    Place place = Place::Of(caller);
    const bool was_unsteady = is_unsteady_;
    bool is_found = false, has_more = true;
    for (std::size_t count = 0; count < kDeepest && has_more && !is_found; ++count) {
      is_found = place.frame_pointer == frame;
      has_more = UpToCaller(stacks, place);
    }
    is_unsteady_ = was_unsteady;
    if (!is_found || !has_more) return {};
    return {place.call, place.slot + sizeof place.slot, place.frame_pointer};
  }

 private:
  static constexpr std::size_t kDeepest = 4096;
  static constexpr std::size_t kStacks = 64;

  bool IsAtStack(Stacks& stacks, const Caller& caller) {
    const std::uint32_t generation = stacks.generation.load(std::memory_order_acquire);
    if (stack_.Contains(caller.stack_pointer) && generation_ == generation) [[likely]]
      return true;
    return ComeToStack(stacks, caller.stack_pointer, generation);
  }

  __attribute__((noinline)) bool ComeToStack(Stacks& stacks, std::uintptr_t stack_pointer,
                                             std::uint32_t generation) {
    if (generation_ != generation) {
      memos_.Forget();
      for (Range& known : stacks_known_) known = {0, 0};
    }
    generation_ = generation;
    frames_ = 0;
    return FindStack(stacks, stack_pointer);
  }

  __attribute__((noinline)) std::uint32_t WalkAndRemember(Stacks& stacks, const Caller& caller) {
    const std::uint32_t node = Join(stacks, Walk(stacks, caller));
    if (StackMemo* const memo = memos_.RoomFor(caller); memo != nullptr)
      memo->node = PutWords(*memo) ? node : 0;
    return node;
  }

  // The words that show that the stack is still the last one.
  bool PutWords(StackMemo& memo) const {
    if (frames_ == 0 || 2 * frames_ > memo.kMostWords) return false;
    memo.count = 0;
    memo.needs_frame = last_[frames_ - 1].needs_frame;
    for (std::size_t at = frames_ - 1; at > 0; --at) {
      const Frame &frame = last_[at], &outer = last_[at - 1];
      memo.words[memo.count++] = {outer.return_at, WordAt(outer.return_at)};
      if (frame.saved_at != 0) memo.words[memo.count++] = {frame.saved_at, outer.frame_pointer};
    }
    return true;
  }

  bool UpToCaller(Stacks& stacks, Place& place) {
    Frame frame{};
    const Rule rule = stacks.rules.Get(place.call);
    return rule.step != Step::kOutermost && rule.step != Step::kSignal && Up(rule, frame, place) &&
           place.call != 0;
  }

  // A frame of the last stack.
  struct Frame {
    std::uintptr_t slot;
    std::uintptr_t return_at;
    std::uintptr_t call;
    std::uintptr_t frame_pointer;
    // Where this frame has saved the frame pointer of its caller, if that matters to the walk.
    std::uintptr_t saved_at;
    std::uint32_t node;
    std::uint32_t saves;     // frames with a saved_at, from the outermost to this one
    bool needs_frame;        // the walk outward from here depends on frame_pointer
    bool uses_frame, saved;  // of the rule
  };

  // The stack of this thread that `stack_pointer` is in: it can have several, one at a time.
  bool FindStack(Stacks& stacks, std::uintptr_t stack_pointer) {
    for (const Range& known : stacks_known_) {
      if (!known.Contains(stack_pointer)) continue;
      stack_ = known;
      return true;
    }
    const KeepErrno keep;
    memos_.Forget();
    stack_ = MappingOf(stack_pointer);
    stacks_known_[next_stack_++ % kStacks] = stack_;
    stacks.known_stacks.Add(stack_.start, stack_.end);
    return stack_.end != 0;
  }

  // Puts the frames that are new into `fresh_`, the innermost first; returns how many of the known
  // frames, from the outermost on, are still there.
  std::size_t Walk(Stacks& stacks, const Caller& caller) {
    Place place = Place::Of(caller);
    std::size_t known = frames_;
    fresh_count_ = 0;
    for (;;) {
      while (known > 0 && last_[known - 1].slot < place.slot) --known;
      if (known > 0 && IsKnown(last_[known - 1], place)) {
        last_[known - 1].return_at = place.return_at;
        const std::size_t intact = IntactUpTo(known);
        if (intact == known) return known;
        known = intact;
      }
      Frame& frame = fresh_[fresh_count_++];
      const Rule rule = stacks.rules.Get(place.call);
      frame = {.slot = place.slot,
               .return_at = place.return_at,
               .call = place.call,
               .frame_pointer = place.frame_pointer,
               .saved_at = 0,
               .node = 0,
               .saves = 0,
               .needs_frame = false,
               .uses_frame = rule.step == Step::kFromFrame,
               .saved = rule.saved_frame != SavedFrame::kNotSaved};
      if (rule.step == Step::kOutermost) return 0;
      if (fresh_count_ == kDeepest || !Up(rule, frame, place)) {
        NoteCut();
        return 0;
      }
      if (place.call == 0) return 0;
    }
  }

  static bool IsKnown(const Frame& frame, const Place& place) {
    return frame.slot == place.slot && frame.call == place.call &&
           (!frame.needs_frame || frame.frame_pointer == place.frame_pointer);
  }

  // 0 where it still returns to the same call.
  static std::uintptr_t ChangeOf(const Frame& frame) {
    return (WordAt(frame.return_at) ^ frame.call) & platform::kAddressOfReturn;
  }

  // `known`, if every one of the known frames up to there is where it was; else how many of them
  // can still be met.
  std::size_t IntactUpTo(std::size_t known) const {
    std::size_t at = known - 1;
    for (; at >= 4; at -= 4) {
      const Frame* const f = last_ + at;
      if ((ChangeOf(f[-1]) | ChangeOf(f[-2]) | ChangeOf(f[-3]) | ChangeOf(f[-4])) != 0) break;
    }
    for (; at >= 1; --at)
      if (ChangeOf(last_[at - 1]) != 0) return at - 1;
    for (at = known - 1; last_[at].saves != 0; --at) {
      const Frame& frame = last_[at];
      if (frame.saved_at != 0 && WordAt(frame.saved_at) != last_[at - 1].frame_pointer) return at;
      if (at == 0) break;
    }
    return known;
  }

  bool Up(const Rule& rule, Frame& frame, Place& place) {
    const Stepped stepped = StepUp(stack_, rule, place);
    frame.saved_at = stepped.saved_at;
    is_unsteady_ |= stepped.is_unsteady;
    return stepped.is_there;
  }

  // Puts the fresh frames onto the `met` outermost ones; the node of the innermost.
  std::uint32_t Join(Stacks& stacks, std::size_t met) {
    if (met + fresh_count_ > kDeepest) {  // the inner part stays
      met = 0;
      NoteCut();
    }
    std::size_t at = met;
    const Frame* outer = met > 0 ? &last_[met - 1] : nullptr;
    while (fresh_count_ > 0) {
      if (outer != nullptr && outer->node == 0) return CannotBeWritten();
      Frame& frame = last_[at++];
      frame = fresh_[--fresh_count_];
      const bool outer_needs = outer != nullptr && outer->needs_frame;
      if (!outer_needs) frame.saved_at = 0;
      frame.saves = (outer != nullptr ? outer->saves : 0) + (frame.saved_at != 0);
      frame.needs_frame = frame.uses_frame || (!frame.saved && outer_needs);
      frame.node = NodeOf(stacks, outer != nullptr ? outer->node : 0, frame.call);
      outer = &frame;
    }
    frames_ = at;
    if (is_unsteady_) {
      is_unsteady_ = false;
      frames_ = 0;
    }
    return outer != nullptr ? outer->node : 0;
  }

  std::uint32_t CannotBeWritten() {
    NoteCut();
    fresh_count_ = frames_ = 0;
    is_unsteady_ = false;
    return 0;
  }

  Range stack_;
  Range stacks_known_[kStacks];
  std::size_t next_stack_;
  std::uint32_t generation_;
  bool is_unsteady_;
  std::size_t frames_, fresh_count_;
  StackMemos memos_;
  Frame last_[kDeepest], fresh_[kDeepest];
  std::uintptr_t calls_[kDeepest];
};

}  // namespace tare::recorder
