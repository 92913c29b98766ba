// The functions of the C library that wait for a while. Their system calls end early when their
// thread was stopped, though the signal asks the kernel to begin them anew; begun_again.hpp does.

#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "begun_again.hpp"
#include "next.hpp"
#include "process.hpp"
#include "tare/platform/exported.hpp"

namespace tare {
namespace {

// An error number, or 0.
int Sleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  using Real = Next<"clock_nanosleep", int(clockid_t, int, const timespec*, timespec*)>;
  const KeepErrno keep;
  const bool absolute = (flags & TIMER_ABSTIME) != 0;
  timespec now = *wanted, rest = now;
  const int result = Wait(
      [&] {
        errno = Real::Call(clock, flags, &now, &rest);
        return errno == 0 ? 0 : -1;
      },
      [&] {
        if (!absolute) now = rest;
        return Call(SYS_clock_nanosleep, clock, flags, &now, &rest);
      });
  if (result == 0) return 0;
  if (errno == EINTR && !absolute && left != nullptr) *left = rest;
  return errno;
}

// While it is there, a stop sets the thread back into the wait for the semaphore.
class WaitsFor {
 public:
  explicit WaitsFor(const void* semaphore) : before_(thread.semaphore) {
    thread.semaphore = semaphore;
  }
  ~WaitsFor() { thread.semaphore = before_; }
  WaitsFor(const WaitsFor&) = delete;
  WaitsFor& operator=(const WaitsFor&) = delete;

 private:
  const void* before_;
};

}  // namespace
}  // namespace tare

using std::size_t;
using tare::Call;
using tare::Cancellation;
using tare::kMaskBytes;
using tare::MillisecondsLeft;
using tare::Next;
using tare::TimeLeft;
using tare::Wait;

EXPORT int nanosleep(const timespec* wanted, timespec* left) {
  const int error = tare::Sleep(CLOCK_REALTIME, 0, wanted, left);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  return tare::Sleep(clock, flags, wanted, left);
}

EXPORT unsigned sleep(unsigned seconds) {
  const timespec wanted{static_cast<time_t>(seconds), 0};
  timespec left{};
  if (nanosleep(&wanted, &left) == 0) return 0;
  return static_cast<unsigned>(left.tv_sec + (left.tv_nsec >= tare::kSecond / 2));
}

EXPORT int usleep(useconds_t microseconds) {
  const timespec wanted{static_cast<time_t>(microseconds / 1'000'000),
                        static_cast<long>(microseconds % 1'000'000) * 1000};
  return nanosleep(&wanted, nullptr);
}

EXPORT int thrd_sleep(const timespec* wanted, timespec* left) {
  constexpr int kInterrupted = -1, kOther = -2;
  const int error = tare::Sleep(CLOCK_REALTIME, 0, wanted, left);
  return error == 0 ? 0 : error == EINTR ? kInterrupted : kOther;
}

EXPORT int poll(pollfd* files, nfds_t count, int milliseconds) {
  TimeLeft left(milliseconds);
  return Wait(
      [&] { return Next<"poll", int(pollfd*, nfds_t, int)>::Call(files, count, milliseconds); },
      [&] { return Call(SYS_ppoll, files, count, left.Get(), nullptr, kMaskBytes); });
}

EXPORT int ppoll(pollfd* files, nfds_t count, const timespec* wanted, const sigset_t* mask) {
  using Real = Next<"ppoll", int(pollfd*, nfds_t, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  return Wait([&] { return Real::Call(files, count, wanted, mask); },
              [&] { return Call(SYS_ppoll, files, count, left.Get(), mask, kMaskBytes); });
}

// What is left of the time is written into `wanted`.
EXPORT int select(int count, fd_set* in, fd_set* out, fd_set* other, timeval* wanted) {
  using Real = Next<"select", int(int, fd_set*, fd_set*, fd_set*, timeval*)>;
  timespec left{};
  bool is_left = false;
  const auto write_left = [&] {
    if (is_left && wanted != nullptr) *wanted = {left.tv_sec, left.tv_nsec / 1000};
  };
  const int result = Wait([&] { return Real::Call(count, in, out, other, wanted); },
                          [&] {
                            write_left();
                            is_left = true;
                            if (wanted != nullptr) left = {wanted->tv_sec, wanted->tv_usec * 1000};
                            return Call(SYS_pselect6, count, in, out, other,
                                        wanted != nullptr ? &left : nullptr, nullptr);
                          });
  write_left();
  return result;
}

EXPORT int pselect(int count, fd_set* in, fd_set* out, fd_set* other, const timespec* wanted,
                   const sigset_t* mask) {
  using Real =
      Next<"pselect", int(int, fd_set*, fd_set*, fd_set*, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  const struct {
    const sigset_t* mask;
    size_t bytes;
  } masked{mask, kMaskBytes};
  return Wait([&] { return Real::Call(count, in, out, other, wanted, mask); },
              [&] { return Call(SYS_pselect6, count, in, out, other, left.Get(), &masked); });
}

EXPORT int epoll_wait(int file, epoll_event* events, int most, int milliseconds) {
  using Real = Next<"epoll_wait", int(int, epoll_event*, int, int)>;
  MillisecondsLeft left(milliseconds);
  return Wait(
      [&] { return Real::Call(file, events, most, milliseconds); },
      [&] { return Call(SYS_epoll_pwait, file, events, most, left.Get(), nullptr, kMaskBytes); });
}

EXPORT int epoll_pwait(int file, epoll_event* events, int most, int milliseconds,
                       const sigset_t* mask) {
  using Real = Next<"epoll_pwait", int(int, epoll_event*, int, int, const sigset_t*)>;
  MillisecondsLeft left(milliseconds);
  return Wait(
      [&] { return Real::Call(file, events, most, milliseconds, mask); },
      [&] { return Call(SYS_epoll_pwait, file, events, most, left.Get(), mask, kMaskBytes); });
}

EXPORT int epoll_pwait2(int file, epoll_event* events, int most, const timespec* wanted,
                        const sigset_t* mask) {
  using Real = Next<"epoll_pwait2", int(int, epoll_event*, int, const timespec*, const sigset_t*)>;
  TimeLeft left(wanted);
  return Wait(
      [&] { return Real::Call(file, events, most, wanted, mask); },
      [&] { return Call(SYS_epoll_pwait2, file, events, most, left.Get(), mask, kMaskBytes); });
}

// As the C library says it of a signal that a thread sent to another.
EXPORT int sigtimedwait(const sigset_t* set, siginfo_t* information, const timespec* wanted) {
  using Real = Next<"sigtimedwait", int(const sigset_t*, siginfo_t*, const timespec*)>;
  TimeLeft left(wanted);
  const int signal =
      Wait([&] { return Real::Call(set, information, wanted); },
           [&] { return Call(SYS_rt_sigtimedwait, set, information, left.Get(), kMaskBytes); });
  if (signal != -1 && information != nullptr && information->si_code == SI_TKILL)
    information->si_code = SI_USER;
  return signal;
}
EXPORT int sigwaitinfo(const sigset_t* set, siginfo_t* information) {
  return sigtimedwait(set, information, nullptr);
}

EXPORT int semtimedop(int id, sembuf* operations, size_t count, const timespec* wanted) noexcept {
  using Real = Next<"semtimedop", int(int, sembuf*, size_t, const timespec*)>;
  TimeLeft left(wanted);
  return Wait([&] { return Real::Call(id, operations, count, wanted); },
              [&] { return Call(SYS_semtimedop, id, operations, count, left.Get()); },
              Cancellation::kNo);
}
EXPORT int semop(int id, sembuf* operations, size_t count) noexcept {
  return semtimedop(id, operations, count, nullptr);
}

#define WAIT_FOR_SEMAPHORE(symbol, parameters, ...)          \
  EXPORT int symbol parameters {                             \
    const tare::WaitsFor waits(semaphore);                   \
    return Next<#symbol, int parameters>::Call(__VA_ARGS__); \
  }
WAIT_FOR_SEMAPHORE(sem_wait, (sem_t * semaphore), semaphore)
WAIT_FOR_SEMAPHORE(sem_timedwait, (sem_t* __restrict semaphore, const timespec* __restrict end),
                   semaphore, end)
WAIT_FOR_SEMAPHORE(sem_clockwait,
                   (sem_t* __restrict semaphore, clockid_t clock, const timespec* __restrict end),
                   semaphore, clock, end)

// These wait for ever, or for a time of the socket's that begins anew.
#define WAIT(result, symbol, parameters, arguments, ...)                          \
  EXPORT result symbol parameters {                                               \
    return Wait([&] { return Next<#symbol, result parameters>::Call arguments; }, \
                [&] { return Call(__VA_ARGS__); });                               \
  }
WAIT(int, pause, (), (), SYS_ppoll, nullptr, 0, nullptr, nullptr, kMaskBytes)
WAIT(int, sigsuspend, (const sigset_t* mask), (mask), SYS_rt_sigsuspend, mask, kMaskBytes)
WAIT(int, msgsnd, (int id, const void* message, size_t bytes, int flags),
     (id, message, bytes, flags), SYS_msgsnd, id, message, bytes, flags)
WAIT(ssize_t, msgrcv, (int id, void* message, size_t bytes, long type, int flags),
     (id, message, bytes, type, flags), SYS_msgrcv, id, message, bytes, type, flags)
WAIT(int, accept, (int file, sockaddr* address, socklen_t* bytes), (file, address, bytes),
     SYS_accept, file, address, bytes)
WAIT(int, accept4, (int file, sockaddr* address, socklen_t* bytes, int flags),
     (file, address, bytes, flags), SYS_accept4, file, address, bytes, flags)
WAIT(ssize_t, recvfrom,
     (int file, void* buffer, size_t bytes, int flags, sockaddr* address, socklen_t* length),
     (file, buffer, bytes, flags, address, length), SYS_recvfrom, file, buffer, bytes, flags,
     address, length)
WAIT(ssize_t, recvmsg, (int file, msghdr* message, int flags), (file, message, flags), SYS_recvmsg,
     file, message, flags)
WAIT(ssize_t, sendto,
     (int file, const void* buffer, size_t bytes, int flags, const sockaddr* address,
      socklen_t length),
     (file, buffer, bytes, flags, address, length), SYS_sendto, file, buffer, bytes, flags, address,
     length)
WAIT(ssize_t, sendmsg, (int file, const msghdr* message, int flags), (file, message, flags),
     SYS_sendmsg, file, message, flags)
WAIT(ssize_t, recv, (int file, void* buffer, size_t bytes, int flags), (file, buffer, bytes, flags),
     SYS_recvfrom, file, buffer, bytes, flags, nullptr, nullptr)
WAIT(ssize_t, send, (int file, const void* buffer, size_t bytes, int flags),
     (file, buffer, bytes, flags), SYS_sendto, file, buffer, bytes, flags, nullptr, 0)
