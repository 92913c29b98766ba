// As of glibc 2.32, for systems that may lack it: there, no process is known to have one thread.
#pragma once

#ifdef __cplusplus
extern "C" char tare_libc_single_threaded __asm__("__libc_single_threaded") __attribute__((weak));

namespace tare::older {
struct IsSingleThreaded {
  operator char() const noexcept {
    return &tare_libc_single_threaded != nullptr ? tare_libc_single_threaded : char{};
  }
};
}  // namespace tare::older
// Not a macro: libstdc++ writes it with "::".
inline constexpr tare::older::IsSingleThreaded __libc_single_threaded{};
#else
extern char __libc_single_threaded __attribute__((weak));
#define __libc_single_threaded (&__libc_single_threaded != 0 && __libc_single_threaded)
#endif
