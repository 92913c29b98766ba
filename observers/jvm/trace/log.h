// One order of what all threads record: a ring that they fill side by side, and that one of them at
// a time empties.
//
// The contract. An event takes its place by one atomic addition, which also numbers births. So
// - an event has a later place than those that its thread knows of: the birth of an object comes
//   before every store that mentions it, and its death after all of them;
// - births are numbered from 1 in the order of their places, without a gap;
// - events are applied one at a time in the order of their places, as if each were one step under a
//   lock: none twice, none lost, none after the log was stopped.
// Where the ring is full, threads wait. None calls the JVM between taking a place and filling it,
// so nobody waits for a thread that a collection has stopped.
#ifndef TARE_JVM_LOG_H
#define TARE_JVM_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum { NUMBER_BITS = 36 };                                                // of births
#define MOST_BIRTHS ((UINT64_C(1) << NUMBER_BITS) - (UINT64_C(1) << 20))  // others may be too late

// Of those up to LAST_BIRTH each has a number.
enum kind {
  BIRTH = 1,
  LATE_BIRTH,
  FIRST_BIRTH,
  LAST_BIRTH = FIRST_BIRTH,
  DEATH,
  STORE,
  MARK_BEGIN,
  MARK_END
};

struct event {
  uint64_t value;
  uint32_t first;
  uint32_t second;
};

typedef void applied_by(enum kind kind, const struct event* event);

// Until this is called the log is stopped. After so many births it stops by itself.
void log_open(uint64_t most_births, applied_by* apply);

// The number of a birth; not 0 of another event. 0 where it comes after the log was stopped.
uint64_t log_add(enum kind kind, uint64_t value, uint32_t first, uint32_t second);

bool log_is_stopped(void);
bool log_is_full(void);  // stopped by itself

// When this returns, all that comes before is applied, and nothing will be any more.
void log_stop(void);

#endif
