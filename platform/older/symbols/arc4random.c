// Of glibc 2.36, for libstdc++.a. It never fails.
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) {
    abort();
  }
  return number;
}
