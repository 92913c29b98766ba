#pragma once

#include <ucontext.h>

#include <cstdint>

namespace tare::platform {

struct CalleeSaved {
  std::uintptr_t values[20];  // x19 to x30, d8 to d15
};

__attribute__((always_inline)) inline void Spill(CalleeSaved& registers) {
  __asm__ volatile(
      "stp x19, x20, [%0]\n\tstp x21, x22, [%0, 16]\n\tstp x23, x24, [%0, 32]\n\t"
      "stp x25, x26, [%0, 48]\n\tstp x27, x28, [%0, 64]\n\tstp x29, x30, [%0, 80]\n\t"
      "stp d8, d9, [%0, 96]\n\tstp d10, d11, [%0, 112]\n\tstp d12, d13, [%0, 128]\n\t"
      "stp d14, d15, [%0, 144]"
      :
      : "r"(registers.values)
      : "memory");
}

class Interrupted {
 public:
  explicit Interrupted(ucontext_t& context) : registers_(context.uc_mcontext) {}

  std::uintptr_t Next() const { return registers_.pc; }
  void SetNext(std::uintptr_t address) { registers_.pc = address; }

  // No function uses memory below it.
  std::uintptr_t Stack() const { return registers_.sp; }

  long CallNumber() const { return Get(8); }
  void SetCallNumber(long number) { Set(8, number); }
  long CallResult() const { return Get(0); }
  void SetCallResult(long result) { Set(0, result); }
  // The result has taken its place. Of waits, those for a semaphore alone expect the value 0.
  long FirstArgument(long likely) const { return Get(2) == 0 ? likely : 0; }
  void SetFirstArgument(long value) { Set(0, value); }
  long SecondArgument() const { return Get(1); }

 private:
  long Get(int number) const { return static_cast<long>(registers_.regs[number]); }
  void Set(int number, long value) { registers_.regs[number] = static_cast<std::uintptr_t>(value); }

  mcontext_t& registers_;
};

// The kernel tells a handler of it only where the handler asked for that, but puts it onto the
// stack for all, behind what it tells of the signal.
__attribute__((always_inline)) inline ucontext_t& ContextOfHandler(void*) {
  return *reinterpret_cast<ucontext_t*>(static_cast<char*>(__builtin_dwarf_cfa()) + 128);
}

}  // namespace tare::platform
