// SPDX-License-Identifier: GPL-2.0-or-later
#include "helper.h"

#include <stdatomic.h>

#include "memory.h"
#include "platform/process.h"

enum {
  STEPS = 1 << 10,
  // The other process is told of so many at once, for each time costs it a cache miss.
  STEPS_AT_ONCE = 64,
  WORDS_AT_ONCE = STREAM_WORDS / 2,
  STEPS_TO_WAKE_FOR = STEPS / 4,  // of a sleeping helper, or
  WORDS_TO_WAKE_FOR = 4 * STREAM_WORDS,
  LINE_BYTES = 64,
  STACK_BYTES = 1 << 18,
  PATIENCE_MS = 100,
};

static Bool is_running;
static Bool was_refused;
static Int helper;   // its process
static Int program;  // this one
static HChar stack[STACK_BYTES] __attribute__((aligned(16)));

static Step steps[STEPS];  // a ring
static _Alignas(LINE_BYTES) atomic_ullong given;
static _Alignas(LINE_BYTES) atomic_ullong taken;

// Each is 1 while its process may sleep.
static _Alignas(LINE_BYTES) atomic_uint helper_sleeps;
static _Alignas(LINE_BYTES) atomic_uint program_sleeps;
static atomic_ullong awaited;  // by the program that sleeps

// The program's own.
static _Alignas(LINE_BYTES) ULong made;   // steps, some of which were not given yet
static ULong words;                       // of these
static ULong steps_asleep, words_asleep;  // since the helper was woken

static atomic_uint is_over;

// The core's memory is the program's to take.
static atomic_uint wants_memory;
static SizeT wanted_bytes;
static void* granted;

// ---- the helper ----

static void wake_program(void) {
  if (atomic_exchange(&program_sleeps, 0) != 0) futex_wake(&program_sleeps);
}

// A process of another namespace has the number 0.
static void leave_if_alone(void) {
  const Int parent = parent_process();
  if (parent != program && parent != 0) exit_process();
}

static void* from_program(SizeT bytes) {
  wanted_bytes = bytes;
  atomic_store(&wants_memory, 1);
  wake_program();
  while (atomic_load(&wants_memory) != 0) {
    futex_wait(&wants_memory, 1, PATIENCE_MS);
    leave_if_alone();
  }
  return granted;
}

// False: there will be none.
static Bool await_step(ULong after) {
  atomic_store(&helper_sleeps, 1);
  if (atomic_load(&given) == after) {
    if (atomic_load(&is_over) != 0) return False;
    futex_wait(&helper_sleeps, 1, PATIENCE_MS);
    leave_if_alone();
  }
  atomic_store(&helper_sleeps, 0);
  return True;
}

static Word help(void* unused) {
  (void)unused;
  ULong next = atomic_load(&taken);
  for (;;) {
    const ULong available = atomic_load_explicit(&given, memory_order_acquire);
    if (available == next) {
      if (!await_step(next)) return 0;
      continue;
    }
    const ULong end = available - next < STEPS_AT_ONCE ? available : next + STEPS_AT_ONCE;
    for (ULong some = 0; next != end && some < WORDS_AT_ONCE; ++next) {
      const Step* const step = &steps[next % STEPS];
      simulator_take(step);
      some += (ULong)(step->end - step->word);
    }
    atomic_store(&taken, next);
    if (atomic_load(&program_sleeps) != 0 && next >= atomic_load(&awaited)) wake_program();
  }
}

// ---- the program ----

static void grant_memory(void) {
  if (atomic_load_explicit(&wants_memory, memory_order_acquire) == 0) return;
  granted = VG_(calloc)("tare.memsys", 1, wanted_bytes);
  atomic_store(&wants_memory, 0);
  futex_wake(&wants_memory);
}

static void wake_helper(void) {
  steps_asleep = words_asleep = 0;
  if (atomic_exchange(&helper_sleeps, 0) != 0) futex_wake(&helper_sleeps);
}

static void give_all(void) {
  steps_asleep += made - atomic_load_explicit(&given, memory_order_relaxed);
  words_asleep += words;
  words = 0;
  atomic_store(&given, made);
  grant_memory();
  if (steps_asleep >= STEPS_TO_WAKE_FOR || words_asleep >= WORDS_TO_WAKE_FOR) wake_helper();
}

Bool helper_has_taken(ULong step) {
  return atomic_load_explicit(&taken, memory_order_acquire) >= step;
}

void helper_await(ULong step) {
  if (helper_has_taken(step)) return;
  give_all();
  wake_helper();
  atomic_store(&awaited, step);
  while (!helper_has_taken(step)) {
    atomic_store(&program_sleeps, 1);
    if (atomic_load(&taken) < step && atomic_load(&wants_memory) == 0 &&
        !futex_wait(&program_sleeps, 1, PATIENCE_MS) && process_has_ended(helper))
      VG_(tool_panic)("the simulator has ended before the program");
    atomic_store(&program_sleeps, 0);
    grant_memory();
  }
}

ULong helper_give(const Step* step) {
  if (!is_running) {
    simulator_take(step);
    atomic_store_explicit(&taken, ++made, memory_order_relaxed);
    atomic_store_explicit(&given, made, memory_order_relaxed);
    return made;
  }
  if (made % STEPS_AT_ONCE == 0 && made >= STEPS) helper_await(made - STEPS + STEPS_AT_ONCE);
  steps[made++ % STEPS] = *step;
  words += (ULong)(step->end - step->word);
  if (made % STEPS_AT_ONCE == 0 || words >= WORDS_AT_ONCE) give_all();
  return made;
}

Bool helper_start(void) {
  if (is_running || was_refused) return is_running;
  program = VG_(getpid)();
  atomic_store(&is_over, 0);
  atomic_store(&helper_sleeps, 0);
  helper = processors() > 1 ? start_process(help, stack + STACK_BYTES) : -1;
  is_running = helper > 0;
  was_refused = !is_running;
  if (is_running) memory_take_from(from_program);
  return is_running;
}

void helper_stop(void) {
  if (!is_running) return;
  helper_await(made);
  atomic_store(&is_over, 1);
  wake_helper();
  await_process(helper);
  helper_forget();
}

void helper_forget(void) {
  is_running = False;
  memory_take_from(NULL);
}
