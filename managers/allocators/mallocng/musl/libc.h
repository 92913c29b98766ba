/* What mallocng asks of musl about the process, answered by the C library that is there. */

#pragma once

#include <stddef.h>
#include <sys/single_threaded.h>

#define PAGE_SIZE 4096

struct tare_libc {
  size_t* auxv;
  int need_locks;
};

__attribute__((const)) size_t* tare_auxv(void);

static inline struct tare_libc tare_libc(void) {
  return (struct tare_libc){tare_auxv(), !__libc_single_threaded};
}
#define libc (tare_libc())
