// SPDX-License-Identifier: GPL-2.0-or-later
#include "operations.h"

#include "effects.h"
#include "events/events.h"
#include "events/phases.h"
#include "executions/contexts.h"
#include "guest/stack.h"
#include "manager/entries.h"
#include "manager/returns.h"
#include "memsys/feed.h"
#include "sites/costs.h"
#include "sites/shadow.h"

void charge_accesses(const Thread* thread) {
  if (!feed_is_on()) return;
  const Frame* const frame = top(thread);
  if (frame != NULL && frame->entry != NULL && frame->entry->operation != OP_COUNT)
    feed_set_operation(frame->entry->operation + 1, frame->returns_to - 1);
  else
    feed_set_operation(0, 0);
  feed_set_phase(phase_of(thread->id));
}

static inline void note_operation(Registers* registers, Operation operation) {
  if (events_are_on() || executions_are_on()) phases_note_operation(registers, operation);
}

// What translated code looks at, in an operation and outside.
static inline void be_inside(const Thread* thread, Registers* registers, Frame* frame) {
  registers->inside = 1;
  registers->leaves_above = frame->stack_pointer;
  registers->map = EMPTY_MAP;
  frame->resumed = frame->question.clock = registers->clock;
  note_operation(registers, frame->entry->operation);
  charge_accesses(thread);
}

static inline void be_outside(const Thread* thread, Registers* registers) {
  registers->inside = 0;
  registers->leaves_above = NEVER;
  registers->map = OBJECT_MAP;
  note_operation(registers, OP_COUNT);
  charge_accesses(thread);
}

void follow_top(const Thread* thread, Registers* registers) {
  Frame* const frame = top(thread);
  if (frame != NULL && frame->entry != NULL)
    be_inside(thread, registers, frame);
  else
    be_outside(thread, registers);
}

void charge(const Frame* frame) {
  if (frame->forks != forks_of_process) return;
  count_call(frame->entry->operation, frame->instructions);
  if (costs_are_on()) costs_count_call(frame->site, frame->entry->operation, frame->instructions);
}

void leave_calls_of_handler(Registers* registers, const Frame* handler) {
  if (sites_are_on()) sites_leave_handler(registers, handler->calls);
}

void drop_abandoned(Thread* thread, Registers* registers, Addr stack_pointer, Addr lowest) {
  const Bool here = is_on_signal_stack(thread->id, stack_pointer);
  Frame* frame;
  while ((frame = top(thread)) != NULL) {
    const Bool there = is_on_signal_stack(thread->id, frame->stack_pointer);
    if (here != there ? here : frame->stack_pointer >= lowest) return;
    if (frame->entry != NULL) {
      ++operation_counts[frame->entry->operation].left;
      charge(frame);
    } else {
      leave_calls_of_handler(registers, frame);
    }
    --thread->used;
  }
}

HELPER void enter_operation(GuestState* state, const Entry* entry) {
  Registers* const registers = registers_of(state);
  Thread* const thread = registers->thread;
  // Whatever is still going on began further up the stack than what begins here.
  const Addr place = guest_call_place(state);
  if (thread->used > 0) drop_abandoned(thread, registers, place, place + 1);
  Frame* const frame = push(thread);
  frame->entry = entry;
  frame->stack_pointer = place;
  frame->returns_to = guest_return_address(state);
  returns_add(frame->returns_to);
  if (FOLLOWS_MEMORY) note_arguments(state, registers, frame);
  be_inside(thread, registers, frame);
  if (feed_is_on() && entry->operation != OP_COUNT) feed_count_call();
}

static Bool is_about(Operation part, Operation whole) {
  return (part == OP_ZEROING && whole == OP_CALLOC) || (part == OP_COPYING && whole == OP_REALLOC);
}

HELPER void enter_memory_function(GuestState* state, const Entry* entry) {
  Registers* const registers = registers_of(state);
  Thread* const thread = registers->thread;
  Frame* const around = top(thread);
  if (!is_about(entry->operation, around->entry->operation)) return;
  around->instructions += registers->clock - around->resumed;
  Frame* const frame = push(thread);
  frame->entry = entry;
  frame->stack_pointer = guest_call_place(state);
  frame->returns_to = guest_return_address(state);
  returns_add(frame->returns_to);
  be_inside(thread, registers, frame);
}

void end_operation(Registers* registers, Addr next, Addr result, SizeT usable_size) {
  Thread* const thread = registers->thread;
  Frame* const frame = top(thread);
  tl_assert(frame != NULL && frame->entry != NULL);
  frame->instructions += registers->clock - frame->resumed;
  if (frame->forks == forks_of_process) {
    charge(frame);
    if (next != frame->returns_to)
      ++operation_counts[frame->entry->operation].left;
    else if (frame->entry->shape == RESOLVES)
      entries_add_resolved(frame->entry, result);
    else if (FOLLOWS_MEMORY)
      note_effect(thread, frame, result, usable_size, registers->clock);
  }
  if (FOLLOWS_MEMORY) follow_burst(frame, registers);
  --thread->used;
  follow_top(thread, registers);
}

void end_what_returned(Registers* registers, Addr stack_pointer, Addr next, Addr result) {
  // Of a calloc that ends by a jump to memset both are over.
  while (registers->leaves_above < stack_pointer) end_operation(registers, next, result, 0);
}

HELPER void leave_operation(GuestState* state, Addr next) {
  end_what_returned(registers_of(state), state->GUEST_STACK_POINTER, next, state->GUEST_RESULT);
}
