// Recording on and off while the program runs. The switch is a page that the processes of a run
// share with who started them: a file which the environment names.

#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "clock.hpp"
#include "format.hpp"
#include "system.hpp"

namespace tare::recorder {

enum class Power : std::uint32_t { kOn, kOff, kNotBegun };

// In the file. The moment is (nanoseconds << 1 | whether it is off from then on), by
// CLOCK_MONOTONIC; 0 is no change. Ticks are 0 where no recorder made it.
struct Change {
  std::atomic<std::uint64_t> moment, ticks;
};

// One word: the power is always what the last of the changes says.
struct alignas(8) SwitchState {
  Power power;
  std::uint32_t changes_used;  // once there is no room the switch stays as it is
};

// As the file has it.
struct Switch {
  static constexpr std::size_t kMostChanges = (kPage - 16) / sizeof(Change);
  std::atomic<SwitchState> state;
  std::atomic<std::uint64_t>
      until;  // nanoseconds; who came into a process leaves it then; 0: never
  Change changes[kMostChanges];
};
static_assert(sizeof(Switch) == kPage && std::atomic<SwitchState>::is_always_lock_free);

constinit inline Switch no_switch{};
constinit inline Switch not_begun{SwitchState{Power::kNotBegun, 0}, 0, {}};
constinit inline Switch* main_switch = &not_begun;

inline Power PowerNow() { return main_switch->state.load(std::memory_order_relaxed).power; }
// What leaves the process; nullptr in who was there from the start.
using Leaving = void();
constinit inline Leaving* leave = nullptr;

// Whether nobody waits for what is recorded any more, however the one who did came to an end.
inline bool LeavesNow() {
  if (leave == nullptr) return false;
  const std::uint64_t until = main_switch->until.load(std::memory_order_relaxed);
  if (until == 0 || Nanoseconds() < until) return false;
  leave();
  return true;
}
inline bool HasSwitch() { return main_switch != &no_switch && main_switch != &not_begun; }

// May be called in a signal's handler. Who changes it at once does so in turn, so that an even
// number of turns leaves it as it was.
inline void Turn(Switch& at) {
  SwitchState before = at.state.load(std::memory_order_acquire), now;
  BothClocks moment;
  do {
    if (before.changes_used >= Switch::kMostChanges) return;
    now = {before.power == Power::kOn ? Power::kOff : Power::kOn, before.changes_used + 1};
    // Anew where another came first: the changes are in the order of their moments.
    moment = ReadBothClocks();
  } while (!at.state.compare_exchange_strong(before, now, std::memory_order_acq_rel,
                                             std::memory_order_acquire));
  Change& change = at.changes[before.changes_used];
  change.ticks.store(moment.ticks, std::memory_order_relaxed);
  change.moment.store(moment.nanoseconds << 1 | (now.power == Power::kOff),
                      std::memory_order_relaxed);
}

inline void OnSignal(int) {
  const KeepErrno keep;
  Turn(*main_switch);
}

// The switch in the file `path`; none where it cannot be had.
inline Switch* MapSwitch(const char* path) {
  const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return &no_switch;
  const bool is_whole = lseek(fd, 0, SEEK_END) >= static_cast<off_t>(sizeof(Switch));
  void* const page = is_whole
                         ? mmap(nullptr, sizeof(Switch), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                         : MAP_FAILED;
  close(fd);
  return page == MAP_FAILED ? &no_switch : static_cast<Switch*>(page);
}

inline void TurnOnSignal(int number) {
  struct sigaction action{};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(number, &action, nullptr);
}

}  // namespace tare::recorder
