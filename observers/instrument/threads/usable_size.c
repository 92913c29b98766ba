// SPDX-License-Identifier: GPL-2.0-or-later
#include "usable_size.h"

#include "manager/entries.h"
#include "operations.h"

static Addr new_object(const Frame* frame, Addr result) {
  if (frame->entry->shape != WANTS_THIRD) return result;
  return (Int)result == 0 ? *(const Addr*)frame->arguments[0] : 0;
}

static Addr ask_or_leave(GuestState* state, Registers* registers, Addr next) {
  Frame* const frame = top(registers->thread);
  tl_assert(frame != NULL && frame->entry != NULL);
  if (frame->question.is_open) {
    registers->clock = frame->question.clock;  // as if nothing had been executed
    const SizeT usable_size = state->GUEST_RESULT;
    restore_caller_saved(state, &frame->question.saved);
    frame->question.is_open = False;
    end_operation(registers, next, state->GUEST_RESULT, usable_size);
    return next;
  }
  const Addr function = usable_size_function();
  const Addr object = new_object(frame, state->GUEST_RESULT);
  if (function == 0 || object == 0 || next != frame->returns_to || !gives_objects(frame->entry)) {
    end_operation(registers, next, state->GUEST_RESULT, 0);
    return next;
  }
  frame->question = (Question){True, registers->clock, caller_saved(state)};
  push_call(state, object, next);
  registers->leaves_above = frame->stack_pointer = guest_call_place(state);
  return function;
}

HELPER void ask_and_leave_operation(GuestState* state, Addr next) {
  Registers* const registers = registers_of(state);
  registers->leads_to = ask_or_leave(state, registers, next);
}
