// SPDX-License-Identifier: GPL-2.0-or-later
#include "threads.h"

#include "events/phases.h"
#include "executions/stretches.h"
#include "objects/objects.h"
#include "objects/regions.h"
#include "operations.h"
#include "sites/shadow.h"

static Thread* threads[1 << 16];
static ThreadId running = VG_INVALID_THREADID;  // the thread whose clock is the process's
static ULong clock_at_end;                      // of the last running thread that has ended

// All threads count on with one clock, which goes from each to the next.
static void run_thread(ThreadId id, ULong blocks_done) {
  (void)blocks_done;
  if (id == running) return;
  const ULong clock = threads_clock();
  running = id;
  Registers registers = load_registers(id);
  Frame* const frame = top(registers.thread);
  const ULong by_others = clock - clock_of(&registers);
  if (registers.inside) {
    frame->resumed += by_others;
    frame->question.clock = clock;
  }
  phases_shift_clock(id, by_others);
  registers.clock = clock;
  store_registers(id, &registers);
  charge_accesses(registers.thread);
}

ULong threads_clock(void) {
  if (running == VG_INVALID_THREADID) return clock_at_end;
  const Registers registers = load_registers(running);
  return clock_of(&registers);
}

Thread* thread_of(ThreadId id) { return threads[id]; }

static void start_thread(ThreadId id) {
  if (threads[id] == NULL) threads[id] = VG_(calloc)("tare.thread", 1, sizeof(Thread));
  threads[id]->id = id;
  threads[id]->number = (UInt)++process_count.threads;
  threads[id]->used = 0;
  threads[id]->own = 0;
  // The core copies the creator's registers, these among them.
  Registers fresh = {.leaves_above = NEVER,
                     .map = OBJECT_MAP,
                     .phase_ends_above = NEVER,
                     .thread_id = id,
                     .thread = threads[id]};
  if (executions_are_on()) fresh.counters = executions_counters(0, OP_COUNT);
  if (sites_are_on()) sites_start_thread(id, &fresh);
  store_registers(id, &fresh);
}

static void end_thread(ThreadId id) {
  Thread* const thread = threads[id];
  if (thread == NULL) return;
  Registers registers = load_registers(id);
  registers.clock = clock_of(&registers);
  Frame* frame = top(thread);
  if (frame != NULL && frame->entry != NULL)
    frame->instructions += registers.clock - frame->resumed;
  for (; (frame = top(thread)) != NULL; --thread->used) {
    if (frame->entry == NULL) continue;
    ++operation_counts[frame->entry->operation].left;
    charge(frame);
  }
  phases_end_thread(id, registers.clock);
  if (id == running) {
    clock_at_end = registers.clock;
    running = VG_INVALID_THREADID;
  }
  VG_(free)(thread->frames);
  VG_(free)(thread);
  threads[id] = NULL;
}

static void enter_handler(ThreadId id, Int signal_number, Bool alternative_stack) {
  (void)signal_number;
  (void)alternative_stack;
  Thread* const thread = threads[id];
  Registers registers = load_registers(id);
  const Addr interrupted_at = VG_(get_SP)(id);
  // An operation may be interrupted when it has returned and code has not looked yet, and at its
  // first instruction.
  end_what_returned(&registers, interrupted_at, VG_(get_IP)(id), load_result(id));
  drop_abandoned(thread, &registers, interrupted_at, interrupted_at);
  registers.clock = clock_of(&registers);
  Frame* const interrupted = top(thread);
  if (registers.inside && interrupted != NULL && interrupted->entry != NULL)
    interrupted->instructions += registers.clock - interrupted->resumed;
  Frame* const handler = push(thread);
  handler->stack_pointer = interrupted_at;
  if (sites_are_on()) handler->calls = sites_enter_handler(&registers);
  follow_top(thread, &registers);
  store_registers(id, &registers);
  ++process_count.signals;
}

void threads_before_sigreturn(ThreadId id) {
  threads[id]->clock_of_handler = load_registers(id).clock;
}

static void leave_handler(ThreadId id, Int signal_number) {
  (void)signal_number;
  Thread* const thread = threads[id];
  Registers registers = load_registers(id);
  registers.clock = thread->clock_of_handler;
  Bool is_handler = False;
  while (!is_handler && thread->used > 0) {
    is_handler = top(thread)->entry == NULL;
    if (is_handler) leave_calls_of_handler(&registers, top(thread));
    --thread->used;
  }
  follow_top(thread, &registers);
  store_registers(id, &registers);
}

// The child of a fork has one thread, and starts its own count.
static void start_child(ThreadId id) {
  ++forks_of_process;
  counts_reset();
  if (FOLLOWS_MEMORY) objects_inherit();
  process_count.threads = 1;
  for (UInt other = 0; other < sizeof threads / sizeof *threads; ++other) {
    if (other == id || threads[other] == NULL) continue;
    VG_(free)(threads[other]->frames);
    VG_(free)(threads[other]);
    threads[other] = NULL;
  }
  threads[id]->number = 1;
  running = id;
  Registers registers = load_registers(id);
  registers.clock = 0;
  phases_start_child(id);
  if (executions_are_on()) executions_start_child();
  if (sites_are_on()) sites_start_child(&registers, id);
  store_registers(id, &registers);
  if (FOLLOWS_MEMORY) {
    regions_start_child();
    recording_start_child();
  }
}

void threads_initialise(void) {
  VG_(track_start_client_code)(run_thread);
  VG_(track_pre_thread_first_insn)(start_thread);
  VG_(track_pre_thread_ll_exit)(end_thread);
  VG_(track_pre_deliver_signal)(enter_handler);
  VG_(track_post_deliver_signal)(leave_handler);
  VG_(atfork)(NULL, NULL, start_child);
}

void threads_finish(void) {
  const ULong clock = threads_clock();
  for (UInt id = 0; id < sizeof threads / sizeof *threads; ++id)
    if (threads[id] != NULL) end_thread((ThreadId)id);
  clock_at_end = clock;
  running = VG_INVALID_THREADID;
}
