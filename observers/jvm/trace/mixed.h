#ifndef TARE_JVM_MIXED_H
#define TARE_JVM_MIXED_H

#include <stdint.h>

static inline uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
  return hash ^ (hash >> 29);
}

#endif
