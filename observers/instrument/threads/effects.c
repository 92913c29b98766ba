// SPDX-License-Identifier: GPL-2.0-or-later
#include "effects.h"

#include "objects/objects.h"
#include "objects/own_memory.h"
#include "objects/reachability.h"
#include "objects/teardown.h"
#include "sites/costs.h"
#include "sites/shadow.h"

static void note_death(Registers* registers, const Frame* frame) {
  Death death = {.freeing = BY_FREE,
                 .clock = registers->clock,
                 .thread = registers->thread->number,
                 .site = frame->site};
  teardown_before_free(registers, &death);
  object_died(frame->arguments[0], &death);
}

void note_arguments(const GuestState* state, Registers* registers, Frame* frame) {
  const Entry* const entry = frame->entry;
  for (UInt i = 0; i < sizeof frame->arguments / sizeof *frame->arguments; ++i)
    frame->arguments[i] = guest_argument(state, i);
  if (entry->shape == RESIZES || entry->shape == RESIZES_ELEMENTS) {
    frame->resized = object_at(frame->arguments[0]);
    frame->resized_id = object_in(frame->resized)->id;
  }
  const Bool frees = entry->shape == ENDS_FIRST && frame->arguments[0] != 0;
  const Bool is_recorded = gives_objects(entry) || (frees && recording_is_on());
  const Bool has_site = sites_are_on() && (is_recorded || !recording_is_on());
  frame->site = has_site ? site_of(registers, frame->stack_pointer) : 0;
  if (frees && !own_memory_remove(frame->arguments[0])) note_death(registers, frame);
}

void follow_burst(const Frame* frame, Registers* registers) {
  if (gives_objects(frame->entry))
    teardown_no_more(registers);
  else if (frame->entry->shape == ENDS_FIRST && frame->arguments[0] != 0)
    teardown_after_free(registers);
}

static void note_bytes(OperationCount* count, const Birth* birth) {
  count->bytes += birth->size;
  if (costs_are_on()) costs_count_bytes(birth->site, birth->operation, birth->size);
}

static void note_birth(const Thread* thread, OperationCount* count, const Birth* birth) {
  if (birth->address == 0) {
    ++count->no_object;
    return;
  }
  note_bytes(count, birth);
  if (thread->own != 0) return own_memory_add(birth->address, birth->size);
  object_born(birth);
  reachability_after_birth(birth->address, birth->clock);
}

static void note_resize(const Thread* thread, OperationCount* count, const Frame* frame,
                        const Birth* birth) {
  const Addr from = frame->arguments[0];
  if (from == 0 || (birth->address != 0 && own_memory_remove(from))) {
    note_birth(thread, count, birth);
  } else if (birth->address != 0) {
    note_bytes(count, birth);
    // Another thread may have been given the old address in the meantime.
    const Bool is_there = object_in(frame->resized)->address == from &&
                          object_in(frame->resized)->id == frame->resized_id;
    object_resized(is_there ? frame->resized : 0, birth);
    reachability_after_birth(birth->address, birth->clock);
  } else if (birth->size == 0) {
    const Death death = {.freeing = BY_FREE, .clock = birth->clock, .frees_since = NEVER_IN_TIME};
    object_died(from, &death);
  } else {
    ++count->no_object;
  }
}

void note_effect(const Thread* thread, const Frame* frame, Addr result, SizeT usable_size,
                 ULong clock) {
  const ULong* const wanted = frame->arguments;
  OperationCount* const count = &operation_counts[frame->entry->operation];
  Birth birth = {.address = result,
                 .usable_size = usable_size,
                 .operation = frame->entry->operation,
                 .clock = clock,
                 .thread = thread->number,
                 .site = frame->site};
  switch (frame->entry->shape) {
    case WANTS_FIRST:
      birth.size = wanted[0];
      note_birth(thread, count, &birth);
      break;
    case WANTS_FIRST_IN_PAGES:
      birth.size = wanted[0];
      birth.alignment = VKI_PAGE_SIZE;
      note_birth(thread, count, &birth);
      break;
    case WANTS_FIRST_ALIGNED:
      birth.size = wanted[0];
      birth.alignment = wanted[1];
      note_birth(thread, count, &birth);
      break;
    case WANTS_FIRST_X_SECOND:
      birth.size = wanted[0] * wanted[1];
      note_birth(thread, count, &birth);
      break;
    case WANTS_SECOND:
      birth.alignment = wanted[0];
      birth.size = wanted[1];
      note_birth(thread, count, &birth);
      break;
    case WANTS_THIRD:
      birth.address = (Int)result == 0 ? *(const Addr*)(Addr)wanted[0] : 0;
      birth.alignment = wanted[1];
      birth.size = wanted[2];
      note_birth(thread, count, &birth);
      break;
    case RESIZES:
      birth.size = wanted[1];
      note_resize(thread, count, frame, &birth);
      break;
    case RESIZES_ELEMENTS:
      birth.size = wanted[1] * wanted[2];
      note_resize(thread, count, frame, &birth);
      break;
    case ENDS_FIRST:
      if (wanted[0] == 0) ++count->no_object;
      break;
    case RESOLVES:
    case WANTS_USABLE_SIZE:
    case WANTS_NOTHING:
    case WORKS_INSIDE:
      break;
  }
}
