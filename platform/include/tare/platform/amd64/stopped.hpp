#pragma once

#include <linux/elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::platform {

class StoppedRegisters {
 public:
  bool Read(int thread) {
    iovec rest{rest_, sizeof rest_};
    if (ptrace(PTRACE_GETREGS, thread, nullptr, &general_) != 0) return false;
    if (ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &rest) != 0) return false;
    rest_bytes_ = rest.iov_len;
    return true;
  }
  bool Write(int thread) const {
    iovec rest{const_cast<char*>(rest_), rest_bytes_};
    return ptrace(PTRACE_SETREGS, thread, nullptr, &general_) == 0 &&
           ptrace(PTRACE_SETREGSET, thread, NT_X86_XSTATE, &rest) == 0;
  }

  std::uintptr_t Next() const { return general_.rip; }
  std::uintptr_t Result() const { return general_.rax; }
  // Of a call of the kernel that it is in, -1 where it is in none; and its second argument.
  long CallNumber() const { return static_cast<long>(general_.orig_rax); }
  std::uintptr_t SecondArgument() const { return general_.rsi; }
  // Below the red zone.
  std::uintptr_t Stack() const { return general_.rsp - 128; }

  // Begins a function whose return address lies at `stack`, which the caller has written there.
  void BeginCall(std::uintptr_t function, std::uintptr_t stack, const std::uintptr_t (&words)[6]) {
    general_.rip = function;
    general_.rsp = stack;
    general_.rdi = words[0];
    general_.rsi = words[1];
    general_.rdx = words[2];
    general_.rcx = words[3];
    general_.r8 = words[4];
    general_.r9 = words[5];
    general_.rax = 0;
    general_.orig_rax = ~0ull;  // the kernel is not to begin its call anew
    general_.eflags &= ~0x400ull;
  }
  // Where the return address of a call lies, on a stack that may be used up to `end`.
  static std::uintptr_t PlaceOfReturn(std::uintptr_t end) {
    return (end & ~std::uintptr_t{15}) - 8;
  }

 private:
  user_regs_struct general_{};
  alignas(64) char rest_[64 << 10];
  std::size_t rest_bytes_ = 0;
};

}  // namespace tare::platform
