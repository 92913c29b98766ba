// Threads that help to mark. They live for one collection, and are made by the kernel's own call:
// the C library does not know them, so the program stays as single-threaded as it is, and they
// are gone when it forks, runs another program or changes its rights. They use the thread-local
// storage of the thread that collects, which waits for them; all signals are blocked in them.

#pragma once

#include <linux/futex.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "marker.hpp"
#include "options.hpp"
#include "tare/platform/system_calls.hpp"

namespace tare {

inline constexpr std::size_t kHelperStack = 1 << 16;

// Begins a thread that calls main(argument) and ends. `running` becomes 0 when it has ended.
inline bool StartHelper(platform::ThreadMain main, void* argument, char* stack,
                        std::atomic<std::uint32_t>& running) {
  running.store(1, std::memory_order_relaxed);
  constexpr platform::CloneFlags kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                          CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
  if (platform::CloneThread(kFlags, main, argument, stack + kHelperStack, &running, nullptr) > 0)
    return true;
  running.store(0, std::memory_order_relaxed);
  return false;
}

inline void AwaitHelper(std::atomic<std::uint32_t>& running) {
  while (running.load(std::memory_order_acquire) != 0)
    syscall(SYS_futex, &running, FUTEX_WAIT, 1, nullptr, nullptr, 0);
}

class Markers {
 public:
  // Nothing is marked.
  void Begin() {
    for (Marker& each : markers_) each.Begin();
    shared_.Begin(1);
  }

  // Marks all else that can be reached from `roots`, by up to `most` markers when there is much to
  // do. `expected` bytes will be marked.
  void Mark(OwnArray<Span>& roots, std::size_t most, std::size_t expected) {
    // Below this a second marker would not have begun before the first is done.
    constexpr std::size_t kMuch = 1 << 20;
    const bool much = expected >= kMuch;
    const bool overflowed = shared_.Overflowed();
    shared_.Begin(1);
    if (most == 1 || !much)
      markers_[0].MarkAlone(roots.begin(), roots.Size(), shared_);
    else
      MarkTogether(roots, most);
    if (overflowed) shared_.Overflow();
    while (shared_.Overflowed()) {
      shared_.Begin(1);
      markers_[0].MarkAgain(shared_);
    }
    Trim();
  }

  // Gives back what their lists do not need any more.
  void Trim() {
    for (Marker& each : markers_) each.Trim();
  }

  // In steps, by one marker, beside which the program may run. First what `roots` point to is
  // marked, and left to be searched.
  void BeginBeside(OwnArray<Span>& roots) {
    Begin();
    for (const Span& each : roots) markers_[0].SearchLater(each);
  }
  void DrainBeside() { markers_[0].DrainBeside(shared_); }
  void SearchBeside(const Span& span) { markers_[0].SearchBeside(span, shared_); }
  // Something had to be left out.
  void Overflow() { shared_.Overflow(); }

  // While there still is memory: a collection may be wanted once there is none.
  void MapLists() {
    shared_.MapLists();
    markers_[0].MapLists();
  }

  std::size_t Objects() const { return Sum(&Marker::objects); }
  std::size_t Bytes() const { return Sum(&Marker::bytes); }
  // In quarantine: of objects that the program has not freed, all searched.
  std::size_t LiveBytes() const { return Sum(&Marker::live_bytes); }

 private:
  struct Helper {
    Marker* marker = nullptr;
    SharedWork* shared = nullptr;
    std::atomic<std::uint32_t> running = 0;
  };

  static void Help(void* argument) {
    auto& helper = *static_cast<Helper*>(argument);
    helper.marker->MarkTogether(*helper.shared);
  }

  void MarkTogether(OwnArray<Span>& roots, std::size_t most) {
    if (stacks_ == nullptr) stacks_ = static_cast<char*>(MapOwn(kMostMarkers * kHelperStack));
    if (stacks_ == nullptr) most = 1;
    shared_.Begin(most);
    shared_.Give(roots.begin(), roots.Size());
    for (std::size_t i = 1; i < most; ++i) {
      Helper& helper = helpers_[i];
      helper.marker = &markers_[i];
      helper.shared = &shared_;
      if (!StartHelper(Help, &helper, stacks_ + i * kHelperStack, helper.running)) shared_.Leave();
    }
    markers_[0].MarkTogether(shared_);
    for (std::size_t i = 1; i < most; ++i) AwaitHelper(helpers_[i].running);
  }

  std::size_t Sum(std::size_t Marker::* member) const {
    std::size_t sum = 0;
    for (const Marker& each : markers_) sum += each.*member;
    return sum;
  }

  SharedWork shared_;
  Marker markers_[kMostMarkers];
  Helper helpers_[kMostMarkers];
  char* stacks_ = nullptr;
};

}  // namespace tare
