#pragma once

#include <sched.h>

namespace tare::platform {

inline constexpr unsigned char kCallInstruction[] = {0x0f, 0x05};
inline constexpr unsigned long kRestorerFlag = 0x04000000;  // SA_RESTORER

inline long CloneThread(CloneFlags flags, ThreadMain main, void* argument, void* stack_end,
                        void* cleared, void* storage) {
  void** const top = static_cast<void**>(stack_end) - 2;
  top[0] = reinterpret_cast<void*>(main);
  top[1] = argument;
  long result = SYS_clone;
  register auto* clear asm("r10") = cleared;
  register auto* tls asm("r8") = storage;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "pop %%rax\n\t"
      "pop %%rdi\n\t"
      "call *%%rax\n\t"
      "xor %%edi, %%edi\n\t"
      "mov %[exit], %%eax\n\t"
      "syscall\n\t"
      "1:"
      : "+a"(result)
      : "D"(flags), "S"(top), "d"(nullptr), "r"(clear), "r"(tls), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory");
  return result;
}

}  // namespace tare::platform

#define TARE_BEGIN_CODE(name) \
  ".pushsection .text." name ",\"axG\",@progbits," name ",comdat\n" TARE_CODE_LABEL(name)
#define TARE_CODE_LABEL(name) ".weak " name "\n.hidden " name "\n" name ":\n"

__asm__(TARE_BEGIN_CODE("tare_return_from_signal")
    "  mov $15, %eax\n"
    "  syscall\n"
    ".popsection\n");

__asm__(TARE_BEGIN_CODE("tare_call_again")
    "  .cfi_startproc\n"
    "  mov 0(%rdi), %rax\n"
    "  mov %rdi, %r11\n"
    "  mov 40(%r11), %r8\n"
    "  mov 48(%r11), %r9\n"
    "  mov 32(%r11), %r10\n"
    TARE_CODE_LABEL("tare_call_again_question")
    "  cmp %esi, (%rdx)\n"
    "  jne 1f\n"
    "  mov 8(%r11), %rdi\n"
    "  mov 16(%r11), %rsi\n"
    "  mov 24(%r11), %rdx\n"
    TARE_CODE_LABEL("tare_call_again_call")
    "  syscall\n"
    TARE_CODE_LABEL("tare_call_again_called")
    "  ret\n"
    "1:\n"
    "  mov $-4, %rax\n"  // -EINTR
    "  ret\n"
    "  .cfi_endproc\n"
    ".type tare_call_again, @function\n"
    ".size tare_call_again, . - tare_call_again\n"
    ".popsection\n");
