// What a stop does to the system call in which its thread waits.
//
// The kernel ends the call. Most calls it begins again itself, by setting the thread back to the
// instruction of the call; those that wait for a while return EINTR, and waits.cpp begins them
// again. Either way the thread is for some instructions on its way back into a call in which it is
// for the program all the time. To the kernel a signal that comes then came before the call, and
// does not end it. So a handler of the program's looks for itself whether its thread is on that
// way, and ends the call.

#pragma once

#include <fcntl.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "process.hpp"
#include "tare/platform/glibc.hpp"
#include "tare/platform/registers.hpp"
#include "tare/platform/system_calls.hpp"

namespace tare {

inline constexpr int kStopSignal = platform::kSetIdSignal;

struct KernelAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// The interrupted thread is in the page of `in`; the page before, or after, may not be there.
inline bool IsCallInstruction(Address at, Address in) {
  unsigned char bytes[sizeof platform::kCallInstruction]{};
  const Address last = at + sizeof bytes - 1;
  if (PageDown(at) == PageDown(in) && PageDown(last) == PageDown(in)) {
    memcpy(bytes, reinterpret_cast<const void*>(at), sizeof bytes);
  } else {
    const iovec to{bytes, sizeof bytes};
    const iovec from{reinterpret_cast<void*>(at), sizeof bytes};
    if (syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) != sizeof bytes) return false;
  }
  return memcmp(bytes, platform::kCallInstruction, sizeof bytes) == 0;
}

inline KernelAction ActionOf(int signal) {
  KernelAction action{};
  syscall(SYS_rt_sigaction, signal, nullptr, &action, sizeof action.mask);
  return action;
}

inline bool HasHandler(int signal) {
  const auto handler = reinterpret_cast<Address>(ActionOf(signal).handler);
  return handler != reinterpret_cast<Address>(SIG_DFL) &&
         handler != reinterpret_cast<Address>(SIG_IGN);
}

// Whether a handler of the program is about to run as the stop's handler returns.
inline bool IsHandlerPending(const ucontext_t& context) {
  std::uint64_t pending = 0, blocked = 0;
  memcpy(&blocked, &context.uc_sigmask, sizeof blocked);
  syscall(SYS_rt_sigpending, &pending, sizeof pending);
  pending &= ~blocked & ~(std::uint64_t{1} << (kStopSignal - 1));
  for (; pending != 0; pending &= pending - 1)
    if (HasHandler(std::countr_zero(pending) + 1)) return true;
  return false;
}

inline bool IsFutexWait(const platform::Interrupted& call) {
  const int command = static_cast<int>(call.SecondArgument()) & FUTEX_CMD_MASK;
  return command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET;
}

// Of the calls that the kernel begins again after a handler that asks for it: those that a handler
// which does not ask for it ends.
inline bool MayBeInterrupted(const platform::Interrupted& call) {
  switch (call.CallNumber()) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_sendfile:
    case SYS_copy_file_range:
    case SYS_getrandom:
    case SYS_ioctl:
#ifdef SYS_open
    case SYS_open:
#endif
    case SYS_openat:
    case SYS_openat2:
    case SYS_flock:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
      return true;
    case SYS_fcntl:
      return call.SecondArgument() == F_SETLKW || call.SecondArgument() == F_OFD_SETLKW;
    case SYS_futex:
      return IsFutexWait(call);
    default:
      return false;
  }
}

inline Address FutexWord(const platform::Interrupted& call, const Thread& t) {
  return static_cast<Address>(call.FirstArgument(reinterpret_cast<long>(t.semaphore)));
}

// The C library waits on a word inside of the semaphore until a fixed time: the same call again
// waits for what is left of it.
inline bool WaitsForSemaphore(const platform::Interrupted& call, const Thread& t) {
  const auto semaphore = reinterpret_cast<Address>(t.semaphore);
  const Address word = FutexWord(call, t);
  return semaphore != 0 && word >= semaphore && word < semaphore + sizeof(sem_t) &&
         IsFutexWait(call);
}

// For the handler of a stop, at its end.
inline void NoteInterruptedCall(ucontext_t& context, Thread& t) {
  platform::Interrupted call(context);
  const Address next = call.Next(), before = next - sizeof platform::kCallInstruction;
  if (next == t.begun_again_at) return;  // it came as far as there when it was stopped anew
  if (call.CallResult() != -EINTR) {
    if (!MayBeInterrupted(call) || !IsCallInstruction(next, next)) return;
    t.begun_again_at = next;
    t.begun_again_by = BegunAgainBy::kKernel;
  } else if (IsCallInstruction(before, next)) {
    const bool only_parked = !IsHandlerPending(context);
    if (only_parked && WaitsForSemaphore(call, t)) {
      call.SetFirstArgument(static_cast<long>(FutexWord(call, t)));
      call.SetNext(before);
      call.SetCallNumber(SYS_futex);
      t.begun_again_at = before;
      t.begun_again_by = BegunAgainBy::kStop;
    } else {
      t.only_parked = only_parked;
    }
  }
}

// For a handler of the program's, at its start.
inline void EndCallOnItsWayBack(int signal, ucontext_t& context, Thread& t) {
  const auto address = [](const char& label) { return reinterpret_cast<Address>(&label); };
  platform::Interrupted call(context);
  const Address next = call.Next();
  if (next >= address(tare_call_again_question) && next <= address(tare_call_again_call)) {
    call.SetNext(address(tare_call_again_called));
  } else if (next == t.begun_again_at) {
    t.begun_again_at = 0;
    if (t.begun_again_by == BegunAgainBy::kKernel && (ActionOf(signal).flags & SA_RESTART) != 0)
      return;
    call.SetNext(next + sizeof platform::kCallInstruction);
  } else {
    return;
  }
  call.SetCallResult(-EINTR);
}

}  // namespace tare
