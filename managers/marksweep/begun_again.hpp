// A system call that a stop interrupted is begun again, for what is left of its time, unless a
// signal of the program's own interrupted it too.

#pragma once

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <type_traits>

#include "process.hpp"
#include "system.hpp"
#include "tare/platform/system_calls.hpp"

namespace tare {

template <typename Argument>
long Word(Argument argument) {
  if constexpr (std::is_null_pointer_v<Argument>)
    return 0;
  else if constexpr (std::is_pointer_v<Argument>)
    return static_cast<long>(reinterpret_cast<Address>(argument));
  else
    return static_cast<long>(argument);
}

template <typename... Arguments>
platform::SystemCall Call(long number, Arguments... arguments) {
  return {number, {Word(arguments)...}};
}

enum class Cancellation : bool { kNo, kPoint };

// The kernel's own call, so that no handler goes unseen between the question whether it may begin
// and its beginning.
inline long BeginAgain(const platform::SystemCall& call, unsigned handled,
                       Cancellation cancellation) {
  if (cancellation == Cancellation::kNo) return tare_call_again(&call, handled, &thread.handled);
  int type = 0;
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
  const long result = tare_call_again(&call, handled, &thread.handled);
  pthread_setcanceltype(type, nullptr);
  return result;
}

// Calls `first`, the C library's function, and then `again`, which makes the same system call for
// what is left of it, until it was not a stop alone that ended it.
template <typename First, typename Again>
auto Wait(First first, Again again, Cancellation cancellation = Cancellation::kPoint) {
  const unsigned handled = thread.handled;
  thread.only_parked = false;
  auto result = first();
  while (result == -1 && errno == EINTR && thread.only_parked) {
    thread.only_parked = false;
    const long now = BeginAgain(again(), handled, cancellation);
    result = static_cast<decltype(result)>(now < 0 ? -1 : now);
    if (now < 0) errno = static_cast<int>(-now);
  }
  return result;
}

inline constexpr std::size_t kMaskBytes = sizeof(std::uint64_t);

inline constexpr long kSecond = 1'000'000'000;

// A time that passes while a call is begun again and again.
class TimeLeft {
 public:
  explicit TimeLeft(const timespec* wanted)
      : end_(wanted == nullptr || wanted->tv_sec > kDecades
                 ? kForEver
                 : Nanoseconds() + static_cast<Count>(wanted->tv_sec) * kSecond +
                       static_cast<Count>(wanted->tv_nsec)) {}
  explicit TimeLeft(int milliseconds)
      : end_(milliseconds < 0 ? kForEver
                              : Nanoseconds() + static_cast<Count>(milliseconds) * 1'000'000) {}

  const timespec* Get() {
    if (end_ == kForEver) return nullptr;
    const Count now = Nanoseconds();
    const auto left = static_cast<long>(end_ > now ? end_ - now : 0);
    left_ = {left / kSecond, left % kSecond};
    return &left_;
  }

 private:
  static constexpr Count kForEver = ~Count{0};
  static constexpr time_t kDecades = 1'000'000'000;
  Count end_;
  timespec left_{};
};

class MillisecondsLeft {
 public:
  explicit MillisecondsLeft(int wanted)
      : wanted_(wanted), end_(Nanoseconds() + static_cast<Count>(std::max(wanted, 0)) * kUnit) {}

  int Get() const {
    if (wanted_ <= 0) return wanted_;
    const Count now = Nanoseconds();
    return end_ > now ? static_cast<int>((end_ - now + kUnit - 1) / kUnit) : 0;
  }

 private:
  static constexpr Count kUnit = 1'000'000;
  int wanted_;
  Count end_;
};

}  // namespace tare
