// Writes events.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "format.hpp"
#include "sampling.hpp"
#include "switch.hpp"
#include "thread.hpp"

namespace tare::recorder {

inline std::size_t UsableSize(void* object) {
  return setting.inner.size_in_header ? SizeInHeader(object) : setting.inner.usable_size(object);
}

// An event that is being written behind the thread's last one. It becomes one by Finish, with its
// first byte, so one that is cut off is none.
class Event {
 public:
  Event(Thread& t, std::uint8_t kind, std::uint64_t ticks) : thread_(t), tag_(kind), at_(t.at + 1) {
    const std::uint64_t time = ticks >> kTickShift;
    const std::uint64_t passed = time > t.time ? time - t.time : 0;
    t.time += passed;
    if (passed < kTimeFollows) {
      tag_ |= static_cast<std::uint8_t>(passed << kTimeShift);
    } else {
      tag_ |= kTimeFollows << kTimeShift;
      Put(passed);
    }
  }
  void Put(std::uint64_t number) { at_ = PutNumber(at_, number); }
  void PutAddress(const void* object, std::uint64_t& last) {
    const auto address = reinterpret_cast<std::uint64_t>(object);
    Put(Folded(static_cast<std::int64_t>(address - last) >> kAddressShift));
    last = address;
  }
  void PutStack(std::uint32_t stack, std::uint32_t& last) {
    if (stack == last) {
      tag_ |= kSameStack;
      return;
    }
    Put(Folded(static_cast<std::int64_t>(stack) - static_cast<std::int64_t>(last)));
    last = stack;
  }
  void PutRegionAddress(const void* object) {
    const auto address = reinterpret_cast<std::uint64_t>(object);
    Put(Folded(static_cast<std::int64_t>(address - thread_.last_birth)));
  }
  void PutRegionStack(std::uint32_t stack) {
    Put(Folded(static_cast<std::int64_t>(stack) - thread_.birth_stack));
    thread_.birth_stack = stack;
  }
  void Flag(std::uint8_t flag) { tag_ |= flag; }
  void Finish() {
    __atomic_store_n(thread_.at, tag_, __ATOMIC_RELEASE);
    thread_.at = at_;
  }

 private:
  Thread& thread_;
  std::uint8_t tag_;
  std::uint8_t* at_;
};

// What takes long is no time of the event at hand.
__attribute__((noinline)) inline void Look(Thread& t, snapshot::Occasion occasion) {
  const OwnBusiness own(t);
  t.snapshot_grant = snapshot::Look(t.snapshot_grant - t.snapshot_left, occasion);
  t.snapshot_left = t.snapshot_grant;
  t.most_net_bytes = std::max(t.most_net_bytes, t.net_bytes);
}

inline void Moved(Thread& t, std::size_t bytes) {
  t.snapshot_left -= static_cast<std::int64_t>(bytes);
  if (t.snapshot_left < 0) [[unlikely]]
    Look(t, snapshot::Occasion::kUsual);
}

inline void LookAfterBirth(Thread& t, std::size_t usable) {
  if (!snapshot::on) return;
  t.net_bytes += static_cast<std::int64_t>(usable);
  Moved(t, usable);
}

// The first death after a rise may end a peak that no look has seen.
inline void LookBeforeDeath(Thread& t, std::size_t usable) {
  constexpr std::int64_t kShareOfGrant = 8;
  if (t.net_bytes - t.most_net_bytes > t.snapshot_grant / kShareOfGrant) [[unlikely]]
    Look(t, snapshot::Occasion::kRiseEnds);
  Moved(t, usable);
  t.net_bytes -= static_cast<std::int64_t>(usable);
}

// Python code that calls C makes one stack with it: what lies outward of the innermost loop that
// runs Python code is told by Python's frames.
__attribute__((noinline)) inline std::uint32_t StackWithPython(Thread& t, const Caller& caller) {
  Stacks& stacks = *process->stacks;
  if (const std::uintptr_t state = python::ThreadState(); state != 0) {
    const python::Interpreter& interpreter = python::interpreter;
    std::size_t count;
    const std::uintptr_t* const calls =
        t.walker.CallsUpTo(stacks, caller, interpreter.loop_start, interpreter.loop_end, count);
    if (calls != nullptr)
      if (const std::uint32_t node = t.python.NodeAt(stacks, state, {calls, count}); node != 0)
        return node;
  }
  return t.walker.NodeAt(stacks, caller);
}

inline std::uint32_t StackOf(Thread& t, const Caller& caller) {
  if (process->native_stacks != nullptr) [[likely]]
    return t.walker.NodeAt(*process->native_stacks, caller);
  return process->stacks != nullptr ? StackWithPython(t, caller) : 0;
}

inline void PutDeath(Thread& t, const void* object, std::uint64_t ticks, std::uint32_t stack,
                     std::uint8_t flags) {
  Event event(t, kDeath | flags, ticks);
  event.PutAddress(object, t.last_death);
  event.PutStack(stack, t.death_stack);
  event.Finish();
}

inline void PutBirth(Thread& t, Kind kind, void* object, std::size_t bytes, std::size_t alignment,
                     std::uint64_t ticks, std::uint32_t stack) {
  const std::size_t usable = UsableSize(object);
  Event event(t, kind, ticks);
  event.PutAddress(object, t.last_birth);
  event.Put(bytes);
  if (kind != kAlignedNew && usable == UsualSize(bytes))
    event.Flag(kUsualSize);
  else
    event.Put(usable > bytes ? usable - bytes : 0);
  if (kind == kAligned || kind == kAlignedNew) event.Put(alignment);
  event.PutStack(stack, t.birth_stack);
  event.Finish();
  LookAfterBirth(t, usable);
}

inline void PutSkipped(Thread& t, std::uint64_t bytes) {
  Event event(t, kSkipped, Ticks());
  event.Put(bytes);
  event.Finish();
}

// Calls of regions::Recorder::begin_own of this thread that have no end yet.
constinit inline thread_local TARE_INITIAL_EXEC std::uint32_t own_of_region = 0;

__attribute__((noinline)) inline void RecordOwnOfRegion(const void* object) {
  Thread* const t = Enter();
  if (t == nullptr) return;
  Event event(*t, kOfRegion, Ticks());
  event.Put(kOwnOfRegion);
  event.PutRegionAddress(object);
  event.Finish();
  Leave(*t);
}

// Whether an object that did not pass is to be recorded.
inline bool IsSampledBirth(const void* object, std::size_t bytes) {
  if (sampled == nullptr) return true;
  std::uint64_t skipped = 0;
  if (!TakeSample(bytes, skipped) || LeavesNow()) return false;
  sampled->Insert(object);
  if (skipped == 0) return true;
  Thread* const t = Enter();
  if (t == nullptr) return false;
  PutSkipped(*t, skipped);
  Leave(*t);
  return true;
}

// After the allocator has given `object`, which did not pass.
inline void RecordBirth(Kind kind, void* object, std::size_t bytes, std::size_t alignment,
                        const Caller& caller) {
  if (own_of_region != 0) [[unlikely]]
    return RecordOwnOfRegion(object);
  if (!IsSampledBirth(object, bytes)) return;
  Thread* const t = Enter();
  if (t == nullptr) [[unlikely]]
    return;
  PutBirth(*t, kind, object, bytes, alignment, Ticks(), StackOf(*t, caller));
  Leave(*t);
}

__attribute__((noinline)) inline void LookBefore(const void* object) {
  Thread* const t = Enter();
  if (t == nullptr) return;
  LookBeforeDeath(*t, UsableSize(const_cast<void*>(object)));
  Leave(*t);
}

inline void RecordDeathAt(std::uint64_t ticks, const void* object, std::uint8_t flags,
                          const Caller& caller) {
  Thread* const t = Enter();
  if (t == nullptr) [[unlikely]]
    return;
  PutDeath(*t, object, ticks, StackOf(*t, caller), flags);
  Leave(*t);
}

// Before the allocator gets `object` back: by then another thread may have it.
inline void RecordDeath(const void* object, const Caller& caller) {
  if (sampled != nullptr && !sampled->Remove(object)) return;
  if (snapshot::on) LookBefore(object);
  RecordDeathAt(Ticks(), object, 0, caller);
}

// What this thread has allocated since its last sample, at its end.
inline void RecordRest() {
  if (sampled == nullptr || bytes_drawn == 0) return;
  Thread* const t = Enter();
  if (t == nullptr) return;
  PutSkipped(*t, bytes_drawn - bytes_left);
  Leave(*t);
  bytes_drawn = bytes_left = 0;
}

}  // namespace tare::recorder
