#pragma once

#include <ucontext.h>

#include <cstdint>

namespace tare::platform {

struct CalleeSaved {
  std::uintptr_t values[6];
};

__attribute__((always_inline)) inline void Spill(CalleeSaved& registers) {
  __asm__ volatile(
      "mov %%rbx, 0(%0)\n\tmov %%rbp, 8(%0)\n\tmov %%r12, 16(%0)\n\t"
      "mov %%r13, 24(%0)\n\tmov %%r14, 32(%0)\n\tmov %%r15, 40(%0)"
      :
      : "r"(registers.values)
      : "memory");
}

class Interrupted {
 public:
  explicit Interrupted(ucontext_t& context) : registers_(context.uc_mcontext.gregs) {}

  std::uintptr_t Next() const { return static_cast<std::uintptr_t>(registers_[REG_RIP]); }
  void SetNext(std::uintptr_t address) { registers_[REG_RIP] = static_cast<greg_t>(address); }

  // Below the red zone, which a function uses without moving the stack pointer.
  std::uintptr_t Stack() const { return static_cast<std::uintptr_t>(registers_[REG_RSP]) - 128; }

  // Of a system call: its number before it, its result after it.
  long CallNumber() const { return registers_[REG_RAX]; }
  void SetCallNumber(long number) { registers_[REG_RAX] = number; }
  long CallResult() const { return registers_[REG_RAX]; }
  void SetCallResult(long result) { registers_[REG_RAX] = result; }
  long FirstArgument(long) const { return registers_[REG_RDI]; }
  void SetFirstArgument(long value) { registers_[REG_RDI] = value; }
  long SecondArgument() const { return registers_[REG_RSI]; }

 private:
  greg_t* registers_;
};

// Every handler is given it.
inline ucontext_t& ContextOfHandler(void* given) { return *static_cast<ucontext_t*>(given); }

}  // namespace tare::platform
