/* musl's atomic operations, as far as mallocng has use for them. */

#pragma once

#include <stdint.h>

#define a_cas __sync_val_compare_and_swap
#define a_or __sync_fetch_and_or
#define a_crash __builtin_trap

static inline int a_ctz_32(uint32_t x) { return __builtin_ctz(x); }
static inline int a_clz_32(uint32_t x) { return __builtin_clz(x); }
