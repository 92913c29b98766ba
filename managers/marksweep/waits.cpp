// System calls that end early when their thread was stopped, though the signal asks the kernel to
// begin them anew: those that wait for a while, above all. They are begun again here, for what is
// left of the time, unless a signal of the program's own interrupted them too.

#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <threads.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "next.hpp"
#include "process.hpp"

namespace tare {
namespace {

// One that may be begun again. A handler of the program that runs between a stop and the new
// beginning is an interruption too, which the kernel tells nobody.
class Wait {
 public:
  void Begin() { thread.only_parked = false; }
  bool OnlyParked() const { return thread.only_parked && thread.handled == handled_; }

 private:
  unsigned handled_ = thread.handled;
};

// Calls `call` until it was not a stop alone that ended it.
template <typename Call>
auto Again(Call call) {
  Wait wait;
  for (;;) {
    wait.Begin();
    const auto result = call();
    if (result != -1 || errno != EINTR || !wait.OnlyParked()) return result;
  }
}

constexpr long kSecond = 1'000'000'000;

// A time that passes while a call is begun again and again.
class TimeLeft {
 public:
  explicit TimeLeft(const timespec* wanted)
      : wanted_(wanted),
        end_(wanted == nullptr ? 0
                               : Nanoseconds() + static_cast<Count>(wanted->tv_sec) * kSecond +
                                     static_cast<Count>(wanted->tv_nsec)) {}

  // What was asked for at first, so that a wrong time is refused by the kernel.
  const timespec* Get() {
    if (wanted_ == nullptr || first_) {
      first_ = false;
      return wanted_;
    }
    const Count now = Nanoseconds();
    const auto left = static_cast<long>(end_ > now ? end_ - now : 0);
    left_ = {left / kSecond, left % kSecond};
    return &left_;
  }

 private:
  const timespec* wanted_;
  Count end_;
  bool first_ = true;
  timespec left_{};
};

class MillisecondsLeft {
 public:
  explicit MillisecondsLeft(int wanted)
      : wanted_(wanted), end_(Nanoseconds() + static_cast<Count>(std::max(wanted, 0)) * kUnit) {}

  int Get() {
    if (wanted_ <= 0 || first_) {
      first_ = false;
      return wanted_;
    }
    const Count now = Nanoseconds();
    return end_ > now ? static_cast<int>((end_ - now + kUnit - 1) / kUnit) : 0;
  }

 private:
  static constexpr Count kUnit = 1'000'000;
  int wanted_;
  Count end_;
  bool first_ = true;
};

int Sleep(const timespec* wanted, timespec* left) {
  timespec now = *wanted, rest{};
  const int result = Again([&] {
    const int slept = Next<"nanosleep", int(const timespec*, timespec*)>::Call(&now, &rest);
    if (slept != 0 && errno == EINTR) now = rest;
    return slept;
  });
  if (result != 0 && errno == EINTR && left != nullptr) *left = rest;
  return result;
}

}  // namespace
}  // namespace tare

#define EXPORT extern "C" __attribute__((visibility("default")))
using std::size_t;
using tare::Again;
using tare::MillisecondsLeft;
using tare::Next;
using tare::TimeLeft;

EXPORT int nanosleep(const timespec* wanted, timespec* left) { return tare::Sleep(wanted, left); }

EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  using Real = Next<"clock_nanosleep", int(clockid_t, int, const timespec*, timespec*)>;
  timespec now = *wanted, rest{};
  tare::Wait wait;
  for (;;) {
    wait.Begin();
    const int error = Real::Call(clock, flags, &now, &rest);
    const bool absolute = (flags & TIMER_ABSTIME) != 0;
    if (error == EINTR && !absolute) now = rest;
    if (error == EINTR && wait.OnlyParked()) continue;
    if (error == EINTR && !absolute && left != nullptr) *left = rest;
    return error;
  }
}

EXPORT unsigned sleep(unsigned seconds) {
  const timespec wanted{static_cast<time_t>(seconds), 0};
  timespec left{};
  if (tare::Sleep(&wanted, &left) == 0) return 0;
  return static_cast<unsigned>(left.tv_sec + (left.tv_nsec >= tare::kSecond / 2));
}

EXPORT int usleep(useconds_t microseconds) {
  const timespec wanted{static_cast<time_t>(microseconds / 1'000'000),
                        static_cast<long>(microseconds % 1'000'000) * 1000};
  return tare::Sleep(&wanted, nullptr);
}

EXPORT int thrd_sleep(const timespec* wanted, timespec* left) {
  constexpr int kInterrupted = -1, kOther = -2;
  if (tare::Sleep(wanted, left) == 0) return 0;
  return errno == EINTR ? kInterrupted : kOther;
}

EXPORT int poll(pollfd* files, nfds_t count, int milliseconds) {
  MillisecondsLeft left(milliseconds);
  return Again(
      [&] { return Next<"poll", int(pollfd*, nfds_t, int)>::Call(files, count, left.Get()); });
}

EXPORT int ppoll(pollfd* files, nfds_t count, const timespec* wanted, const sigset_t* mask) {
  using Real = Next<"ppoll", int(pollfd*, nfds_t, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  return Again([&] { return Real::Call(files, count, left.Get(), mask); });
}

// The kernel writes what is left of the time into it.
EXPORT int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* wanted) {
  using Real = Next<"select", int(int, fd_set*, fd_set*, fd_set*, timeval*)>;
  return Again([&] { return Real::Call(count, in, out, other, wanted); });
}

EXPORT int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* wanted,
                   const sigset_t* mask) {
  using Real =
      Next<"pselect", int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  return Again([&] { return Real::Call(count, in, out, other, left.Get(), mask); });
}

EXPORT int epoll_wait(int file, epoll_event* events, int most, int milliseconds) {
  using Real = Next<"epoll_wait", int(int, epoll_event*, int, int)>;
  MillisecondsLeft left(milliseconds);
  return Again([&] { return Real::Call(file, events, most, left.Get()); });
}

EXPORT int epoll_pwait(int file, epoll_event* events, int most, int milliseconds,
                       const sigset_t* mask) {
  using Real = Next<"epoll_pwait", int(int, epoll_event*, int, int, const sigset_t*)>;
  MillisecondsLeft left(milliseconds);
  return Again([&] { return Real::Call(file, events, most, left.Get(), mask); });
}

EXPORT int epoll_pwait2(int file, epoll_event* events, int most, const timespec* wanted,
                        const sigset_t* mask) {
  using Real = Next<"epoll_pwait2", int(int, epoll_event*, int, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  return Again([&] { return Real::Call(file, events, most, left.Get(), mask); });
}

EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* information, const timespec* wanted) {
  using Real = Next<"sigtimedwait", int(const sigset_t*, siginfo_t*, const timespec*)>;
  TimeLeft left(wanted);
  return Again([&] { return Real::Call(set, information, left.Get()); });
}

EXPORT int semtimedop(int id, sembuf* operations, size_t count, const timespec* wanted) noexcept {
  using Real = Next<"semtimedop", int(int, sembuf*, size_t, const timespec*)>;
  TimeLeft left(wanted);
  return Again([&] { return Real::Call(id, operations, count, left.Get()); });
}

EXPORT int semop(int id, sembuf* operations, size_t count) noexcept {
  using Real = Next<"semop", int(int, sembuf*, size_t)>;
  return Again([&] { return Real::Call(id, operations, count); });
}

// These wait until a fixed time, or for ever, or for a time of the socket's that begins anew.
#define WAIT(result, symbol, parameters, ...)                                          \
  EXPORT result symbol parameters {                                                    \
    return Again([&] { return Next<#symbol, result parameters>::Call(__VA_ARGS__); }); \
  }
WAIT(int, pause, (), )
WAIT(int, sigsuspend, (const sigset_t* mask), mask)
WAIT(int, sigwaitinfo, (const sigset_t* set, siginfo_t* information), set, information)
WAIT(int, sem_wait, (sem_t * semaphore), semaphore)
WAIT(int, sem_timedwait, (sem_t* __restrict semaphore, const timespec* __restrict end), semaphore,
     end)
WAIT(int, sem_clockwait,
     (sem_t* __restrict semaphore, clockid_t clock, const timespec* __restrict end), semaphore,
     clock, end)
WAIT(int, msgsnd, (int id, const void* message, size_t bytes, int flags), id, message, bytes, flags)
WAIT(ssize_t, msgrcv, (int id, void* message, size_t bytes, long type, int flags), id, message,
     bytes, type, flags)
WAIT(int, accept, (int file, sockaddr* address, socklen_t* bytes), file, address, bytes)
WAIT(int, accept4, (int file, sockaddr* address, socklen_t* bytes, int flags), file, address, bytes,
     flags)
WAIT(ssize_t, recv, (int file, void* buffer, size_t bytes, int flags), file, buffer, bytes, flags)
WAIT(ssize_t, recvfrom,
     (int file, void* buffer, size_t bytes, int flags, sockaddr* address, socklen_t* length), file,
     buffer, bytes, flags, address, length)
WAIT(ssize_t, recvmsg, (int file, msghdr* message, int flags), file, message, flags)
WAIT(ssize_t, send, (int file, const void* buffer, size_t bytes, int flags), file, buffer, bytes,
     flags)
WAIT(ssize_t, sendto,
     (int file, const void* buffer, size_t bytes, int flags, const sockaddr* address,
      socklen_t length),
     file, buffer, bytes, flags, address, length)
WAIT(ssize_t, sendmsg, (int file, const msghdr* message, int flags), file, message, flags)
