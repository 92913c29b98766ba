#ifndef TARE_JVM_WAIT_H
#define TARE_JVM_WAIT_H

#include <time.h>

// For a thread that lost its processor: so it gets one.
static inline void wait_a_moment(void) { nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); }

#endif
