#pragma once

#include <sched.h>

namespace tare::platform {

inline constexpr unsigned char kCallInstruction[] = {0x01, 0x00, 0x00, 0xd4};  // svc 0
inline constexpr unsigned long kRestorerFlag = 0x04000000;                     // SA_RESTORER

inline long CloneThread(CloneFlags flags, ThreadMain main, void* argument, void* stack_end,
                        void* cleared, void* storage) {
  void** const top = static_cast<void**>(stack_end) - 2;
  top[0] = reinterpret_cast<void*>(main);
  top[1] = argument;
  register long result asm("x0") = flags;
  register void** stack asm("x1") = top;
  register void* parent asm("x2") = nullptr;
  register void* tls asm("x3") = storage;
  register void* clear asm("x4") = cleared;
  register long number asm("x8") = SYS_clone;
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x30, xzr\n\t"
      "ldp x1, x0, [sp], 16\n\t"
      "blr x1\n\t"
      "mov x0, xzr\n\t"
      "mov x8, %[exit]\n\t"
      "svc 0\n\t"
      "1:"
      : "+r"(result)
      : "r"(stack), "r"(parent), "r"(tls), "r"(clear), "r"(number), [exit] "i"(SYS_exit)
      : "memory");
  return result;
}

}  // namespace tare::platform

#define TARE_BEGIN_CODE(name) \
  ".pushsection .text." name ",\"axG\",%progbits," name ",comdat\n" TARE_CODE_LABEL(name)
#define TARE_CODE_LABEL(name) ".weak " name "\n.hidden " name "\n" name ":\n"

__asm__(TARE_BEGIN_CODE("tare_return_from_signal")
    "  mov x8, 139\n"
    "  svc 0\n"
    ".popsection\n");

__asm__(TARE_BEGIN_CODE("tare_call_again")
    "  .cfi_startproc\n"
    "  mov x9, x0\n"
    "  mov x10, x2\n"
    "  ldr x8, [x9]\n"
    "  ldp x3, x4, [x9, 32]\n"
    "  ldr x5, [x9, 48]\n"
    TARE_CODE_LABEL("tare_call_again_question")
    "  ldr w11, [x10]\n"
    "  cmp w11, w1\n"
    "  b.ne 1f\n"
    "  ldp x0, x1, [x9, 8]\n"
    "  ldr x2, [x9, 24]\n"
    TARE_CODE_LABEL("tare_call_again_call")
    "  svc 0\n"
    TARE_CODE_LABEL("tare_call_again_called")
    "  ret\n"
    "1:\n"
    "  mov x0, -4\n"  // -EINTR
    "  ret\n"
    "  .cfi_endproc\n"
    ".type tare_call_again, %function\n"
    ".size tare_call_again, . - tare_call_again\n"
    ".popsection\n");
