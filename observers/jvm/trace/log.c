#define _GNU_SOURCE
#include "log.h"

#include <pthread.h>
#include <stdatomic.h>

#include "wait.h"

enum {
  SLOTS = 1 << 16,  // some ten ms of a program, as long as a thread may wait for a processor
  BATCH = 1 << 9,   // so many are applied at once
  LINE_BYTES = 64,
};

// Above the number of births: whether the log is stopped, and the next place, which begins anew
// after 2^27.
#define NUMBERS ((UINT64_C(1) << NUMBER_BITS) - 1)
#define STOPPED (UINT64_C(1) << NUMBER_BITS)
#define PLACE (UINT64_C(2) << NUMBER_BITS)
#define PLACES (UINT64_MAX / PLACE)  // a mask

// Of slots, beside the kinds of their events.
enum { FREE = 0, TOO_LATE = MARK_END + 1 };

struct slot {
  struct event event;
  atomic_int kind;
};

static _Alignas(LINE_BYTES) atomic_uint_fast64_t taken = STOPPED;
static _Alignas(LINE_BYTES) atomic_uint_fast64_t applied;  // places before it may be filled anew
static _Alignas(LINE_BYTES) struct slot slots[SLOTS];
static pthread_mutex_t applying = PTHREAD_MUTEX_INITIALIZER;
static uint64_t most_births;
static applied_by* apply;
static atomic_bool is_full;

void log_open(uint64_t most, applied_by* how) {
  most_births = most;
  apply = how;
  atomic_store(&taken, 0);
}

bool log_is_stopped(void) {
  return (atomic_load_explicit(&taken, memory_order_acquire) & STOPPED) != 0;
}

bool log_is_full(void) { return is_full; }

// Whether the event at the place was there to be applied. The caller holds the lock.
static bool apply_at(uint64_t place) {
  struct slot* const slot = &slots[place % SLOTS];
  const int kind = atomic_load_explicit(&slot->kind, memory_order_acquire);
  if (kind == FREE) return false;
  if (kind != TOO_LATE) apply(kind, &slot->event);
  atomic_store_explicit(&slot->kind, FREE, memory_order_relaxed);
  atomic_store_explicit(&applied, (place + 1) & PLACES, memory_order_release);
  return true;
}

// Up to the first that is not filled yet: who fills it comes later, or the next batch does. If
// another thread is at it, this one has better things to do.
__attribute__((noinline)) static void apply_some(void) {
  if (pthread_mutex_trylock(&applying) != 0) return;
  for (int i = 0; i < SLOTS; ++i)
    if (!apply_at(atomic_load_explicit(&applied, memory_order_relaxed))) break;
  pthread_mutex_unlock(&applying);
}

static bool has_room(uint64_t place) {
  return ((place - atomic_load_explicit(&applied, memory_order_acquire)) & PLACES) < SLOTS;
}

uint64_t log_add(enum kind kind, uint64_t value, uint32_t first, uint32_t second) {
  const bool is_birth = kind <= LAST_BIRTH;
  if (log_is_stopped()) return 0;
  const uint64_t before = atomic_fetch_add_explicit(&taken, PLACE + is_birth, memory_order_acq_rel);
  const uint64_t number = is_birth ? (before & NUMBERS) + 1 : 1;
  bool in_time = (before & STOPPED) == 0;
  if (in_time && is_birth && number > most_births) {
    is_full = true;
    atomic_fetch_or_explicit(&taken, STOPPED, memory_order_acq_rel);
    in_time = false;
  }
  const uint64_t place = before / PLACE;
  while (!has_room(place)) {
    apply_some();
    wait_a_moment();
  }
  struct slot* const slot = &slots[place % SLOTS];
  slot->event = (struct event){value, first, second};
  atomic_store_explicit(&slot->kind, in_time ? (int)kind : TOO_LATE, memory_order_release);
  if (place % BATCH == BATCH - 1) apply_some();
  return in_time ? number : 0;
}

void log_stop(void) {
  const uint64_t end = atomic_fetch_or_explicit(&taken, STOPPED, memory_order_acq_rel) / PLACE;
  pthread_mutex_lock(&applying);
  for (;;) {
    const uint64_t place = atomic_load_explicit(&applied, memory_order_relaxed);
    const bool is_before_end = ((end - 1 - place) & PLACES) < PLACES / 2;
    if (!is_before_end) break;
    if (!apply_at(place)) wait_a_moment();
  }
  pthread_mutex_unlock(&applying);
}
