/* mallocng calls the kernel for brk alone; for the rest it has names of musl's own. */

#pragma once

#include <stddef.h>
#include <stdint.h>

uintptr_t tare_break(uintptr_t end);

#define __syscall(number, end) tare_break(end)
#define __mmap mmap
#define __madvise madvise
#define __mremap mremap
