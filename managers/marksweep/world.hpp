// Stopping all other threads of the process.
//
// The signal is the C library's own, see kSetIdSignal. The library's own use is told apart by the
// signal's code, and passed on.

#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "interruptions.hpp"
#include "process.hpp"
#include "system.hpp"
#include "tare/platform/memory.hpp"
#include "tare/platform/registers.hpp"
#include "tare/platform/system_calls.hpp"

namespace tare {

struct StackInUse {
  Address stack;        // lowest address in use where the registers were saved
  Address interrupted;  // the same of the stack that was in use then: another, if signals have one
  Address thread_pointer;
};

// Of a stopped thread, on its own stack.
struct Parked {
  const Parked* next;
  pid_t id;
  StackInUse in_use;
};

// The threads that have stopped in an epoch, the last one first. What leads to them also holds the
// low bits of the epoch: a thread that comes late, after a stop was given up, finds the list of its
// epoch closed, and is not taken for one that has stopped in the next.
class ParkedThreads {
 public:
  void Begin(std::uint32_t epoch) { last_.store(Tag(epoch), std::memory_order_release); }

  bool Add(Parked& self, std::uint32_t epoch) {
    std::uint64_t last = last_.load(std::memory_order_acquire);
    do {
      if ((last & kTag) != Tag(epoch)) return false;
      self.next = At(last);
    } while (!last_.compare_exchange_weak(last, Tag(epoch) | reinterpret_cast<Address>(&self),
                                          std::memory_order_acq_rel, std::memory_order_acquire));
    return true;
  }

  // For the thread that began the epoch: those in the list wait for its end.
  const Parked* Last() const { return At(last_.load(std::memory_order_acquire)); }
  std::size_t Size() const {
    std::size_t size = 0;
    for (const Parked* each = Last(); each != nullptr; each = each->next) ++size;
    return size;
  }

 private:
  static constexpr unsigned kTagShift = platform::kAddressBits;
  static constexpr std::uint64_t kTag = ~std::uint64_t{0} << kTagShift;
  static std::uint64_t Tag(std::uint32_t epoch) { return std::uint64_t{epoch} << kTagShift; }
  static const Parked* At(std::uint64_t word) {
    return reinterpret_cast<const Parked*>(word & ~kTag);
  }

  std::atomic<std::uint64_t> last_ = 0;
};

struct World {
  std::atomic<std::uint32_t> epoch = 0;    // odd: stopped
  std::atomic<std::uint32_t> arrived = 0;  // changes with each arrival
  ParkedThreads parked;
  OwnArray<pid_t> asked;
  OwnArray<pid_t> ended;     // listed, but they will run no more
  bool first_ended = false;  // the first thread stays listed as long as the process lives
  pid_t beside = 0;          // the marker beside the program, which is not stopped,
  std::atomic<std::uint32_t> beside_runs = 0;  // while it runs
};
constinit inline World world;

inline Address ThreadPointer() { return reinterpret_cast<Address>(__builtin_thread_pointer()); }
inline pid_t ThreadId() { return static_cast<pid_t>(syscall(SYS_gettid)); }

inline void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value,
                      const timespec* timeout) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, timeout, nullptr, 0);
}
inline void FutexWake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// The rest of the stop, in the thread that is stopped. Signals are blocked.
__attribute__((noinline)) inline void Park(Address stack, Address interrupted) {
  const KeepErrno keep;
  thread.must_park = false;
  const std::uint32_t epoch = world.epoch.load(std::memory_order_acquire);
  if (epoch % 2 == 0) return;
  Parked self{nullptr, ThreadId(), {stack, interrupted, ThreadPointer()}};
  if (!world.parked.Add(self, epoch)) return;
  world.arrived.fetch_add(1, std::memory_order_release);
  FutexWake(world.arrived);
  while (world.epoch.load(std::memory_order_acquire) == epoch)
    FutexWait(world.epoch, epoch, nullptr);
}

__attribute__((noinline)) inline void ParkNow() {
  platform::CalleeSaved registers;
  platform::Spill(registers);
  const auto frame = reinterpret_cast<Address>(__builtin_frame_address(0));
  const Address stack = std::min(frame, reinterpret_cast<Address>(&registers));
  const SignalsBlocked blocked;
  Park(stack, stack);
}

constinit inline KernelAction library_action{};

inline void HandleStop(int number, siginfo_t* information, void* where) {
  if (information->si_code != SI_QUEUE || information->si_value.sival_ptr != &world) {
    if (library_action.handler != nullptr) library_action.handler(number, information, where);
    return;
  }
  const KeepErrno keep;
  Thread& t = thread;
  auto& context = *static_cast<ucontext_t*>(where);
  if (t.depth > 0) {
    t.must_park = true;
  } else {
    Park(reinterpret_cast<Address>(__builtin_frame_address(0)),
         platform::Interrupted(context).Stack());
  }
  NoteInterruptedCall(context, t);
}

// Takes the signal, unless it is taken already.
inline void TakeStopSignal() {
  const KernelAction now = ActionOf(kStopSignal);
  if (now.handler == HandleStop) return;
  if ((now.flags & SA_SIGINFO) != 0) library_action = now;
  const KernelAction ours{HandleStop,
                          SA_SIGINFO | SA_RESTART | SA_ONSTACK | platform::kRestorerFlag,
                          tare_return_from_signal, ~std::uint64_t{0}};
  syscall(SYS_rt_sigaction, kStopSignal, &ours, nullptr, sizeof ours.mask);
}

// True unless there is no such thread any more.
inline bool AskToStop(pid_t id) {
  siginfo_t information{};
  information.si_signo = kStopSignal;
  information.si_code = SI_QUEUE;
  information.si_pid = process.pid;
  information.si_uid = getuid();
  information.si_value.sival_ptr = &world;
  return syscall(SYS_rt_tgsigqueueinfo, process.pid, id, kStopSignal, &information) == 0 ||
         errno != ESRCH;
}

// Whether the thread will run no more: it is gone, or it is the first one and waits for the rest.
inline bool HasEnded(pid_t id) {
  if (syscall(SYS_tgkill, process.pid, id, 0) != 0 && errno == ESRCH) return true;
  Message path;
  path << "/proc/self/task/" << static_cast<std::uint64_t>(id) << "/stat";
  const auto fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path.Text(), O_RDONLY));
  if (fd < 0) return errno == ENOENT;
  char text[256];
  const long length = syscall(SYS_read, fd, text, sizeof text - 1);
  syscall(SYS_close, fd);
  if (length <= 0) return true;
  text[length] = '\0';
  const char* const name_end = strrchr(text, ')');
  return name_end != nullptr && (name_end[2] == 'Z' || name_end[2] == 'X');
}

inline bool HasArrived(pid_t id) {
  for (const Parked* each = world.parked.Last(); each != nullptr; each = each->next)
    if (each->id == id) return true;
  return false;
}

inline pid_t NumberIn(const char* name) {
  pid_t number = 0;
  for (; *name >= '0' && *name <= '9'; ++name) number = number * 10 + (*name - '0');
  return *name == '\0' ? number : 0;
}

// Calls visit(thread) for each thread that the kernel lists. False when it cannot be read.
template <typename Visit>
bool VisitThreads(Visit visit) {
  constexpr long kLengthAt = 16, kNameAt = 19;  // in an entry
  const auto fd = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, "/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd < 0) return false;
  alignas(8) char entries[platform::kLeastPageBytes];
  long length = 0;
  while ((length = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
    for (long at = 0; at < length;) {
      const pid_t id = NumberIn(entries + at + kNameAt);
      if (id != 0) visit(id);
      unsigned short bytes = 0;
      memcpy(&bytes, entries + at + kLengthAt, sizeof bytes);
      at += bytes;
    }
  }
  syscall(SYS_close, fd);
  return length == 0;
}

// Waits until all threads asked have arrived, or have ended instead. False when that does not seem
// to happen: one waits for a lock that a stopped thread holds, as allocators take locks where a
// thread ends too, or it sleeps where no signal reaches it.
inline bool AwaitArrivals() {
  constexpr timespec kPatience{0, 5'000'000};
  constexpr int kMostTries = 40;
  for (int tries = 1; tries < kMostTries; ++tries) {
    const std::uint32_t arrived = world.arrived.load(std::memory_order_acquire);
    if (world.parked.Size() >= world.asked.Size()) return true;
    FutexWait(world.arrived, arrived, &kPatience);
    if (world.arrived.load(std::memory_order_relaxed) != arrived) {
      tries = 0;
      continue;
    }
    std::size_t kept = 0;
    for (const pid_t id : world.asked) {
      const bool here = HasArrived(id);
      if (!here && HasEnded(id)) {
        world.ended.Add(id);
        world.first_ended |= id == process.pid;
        continue;
      }
      world.asked[kept++] = id;
      if (!here && tries % (kMostTries / 4) == 0) AskToStop(id);
    }
    world.asked.Shorten(kept);
  }
  return false;
}

inline bool IsMarker(pid_t id) {
  return id == world.beside && world.beside_runs.load(std::memory_order_relaxed) != 0;
}

inline void BeginEpoch() {
  const std::uint32_t next = world.epoch.load(std::memory_order_relaxed) + 1;
  world.parked.Begin(next);
  world.epoch.store(next, std::memory_order_seq_cst);
}

inline void StartWorld() {
  BeginEpoch();
  FutexWake(world.epoch);
}

// The kernel lists threads in the same order again, so the next one is `likely` the next asked.
inline bool IsAsked(pid_t id, std::size_t& likely) {
  const std::size_t count = world.asked.Size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = (likely + i) % count;
    if (world.asked[at] != id) continue;
    likely = at + 1;
    return true;
  }
  for (const pid_t ended : world.ended)
    if (ended == id) return true;
  return world.first_ended && id == process.pid;
}

// Stops all other threads. False, and nothing is stopped, when that cannot be done now.
inline bool StopWorld() {
  world.asked.Clear();
  world.ended.Clear();
  BeginEpoch();
  if (__libc_single_threaded) return true;
  const pid_t self = ThreadId();
  for (bool more = true; more;) {
    more = false;
    bool room = true;
    std::size_t likely = 0;
    const bool listed = VisitThreads([&](pid_t id) {
      if (IsMarker(id)) return;
      if (id == self || IsAsked(id, likely) || !AskToStop(id)) return;
      room &= world.asked.Add(id);
      more = true;
    });
    if (!listed || !room || !AwaitArrivals()) {
      StartWorld();
      return false;
    }
  }
  return true;
}

}  // namespace tare
