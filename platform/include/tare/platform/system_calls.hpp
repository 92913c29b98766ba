// System calls that the C library has no function for. A processor's part has
//   kCallInstruction     the bytes of the instruction that makes a call
//   kRestorerFlag        of an action: its handler returns by tare_return_from_signal
//   CloneThread          the kernel's clone: main(argument) runs on the stack that ends there, and
//                        `cleared` becomes 0 when it has ended; with CLONE_SETTLS `storage` is its
//                        thread pointer; the result is the kernel's
//   the code of the functions of C below

#pragma once

#include <sys/syscall.h>

#include "tare/platform/processor.hpp"

namespace tare::platform {

using CloneFlags = long;
using ThreadMain = void (*)(void*);

struct SystemCall {
  long number;
  long arguments[6];
};

}  // namespace tare::platform

#pragma GCC visibility push(hidden)
extern "C" {
void tare_return_from_signal();

// The call, or -EINTR if more handlers have begun to run than `handled` says. The result is the
// kernel's. From `question` on up to the instruction at `call` the call has not begun.
long tare_call_again(const tare::platform::SystemCall* call, unsigned handled,
                     const volatile unsigned* handled_now);
extern const char tare_call_again_question, tare_call_again_call, tare_call_again_called;
}
#pragma GCC visibility pop

#if !__has_include(TARE_OF_PROCESSOR(system_calls.hpp))
#error "Tare's mark-sweep does not know the system calls of this processor yet"
#endif
#include TARE_OF_PROCESSOR(system_calls.hpp)
