/* What the three parts of the wrapper around the collector share.

     malloc.c    the malloc family over GC_malloc
     threads.c   threads are made known to the collector before they run and until they are gone
     mappings.c  memory that the program maps is searched for pointers
*/

#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

void tare_start_threads(void);
void tare_start_mappings(void);

/* The system's own, for the collector. */
int tare_system_sigmask(int how, const sigset_t* set, sigset_t* old);
void* tare_system_mmap(void* address, size_t size, int protection, int flags, int file, off_t at);
int tare_system_munmap(void* address, size_t size);
