// SPDX-License-Identifier: GPL-2.0-or-later
#include "phases.h"

#include "executions/contexts.h"
#include "names.h"
#include "output/files.h"

enum { MOST_DEPTH = 1 << 16, OUTSIDE = OP_COUNT };

typedef struct {
  UInt name;
  Addr leaves_above;  // 0: until its end is executed
  ULong around;       // the phases that it began in, as bits
} Phase;

typedef struct {
  Phase* phases;
  UInt depth;
  UInt capacity;
  UInt operation;  // or OUTSIDE
  ULong resumed;   // the clock when the innermost phase began or went on
} Progress;

static Progress* progress[1 << 16];  // by thread; NULL: none

static Progress* progress_of(ThreadId thread) {
  if (progress[thread] == NULL) {
    progress[thread] = VG_(calloc)("tare.progress", 1, sizeof *progress[thread]);
    progress[thread]->operation = OUTSIDE;
  }
  return progress[thread];
}

static void charge_innermost(Progress* now, ULong clock) {
  if (now->depth > 0)
    event_names[now->phases[now->depth - 1].name].instructions[now->operation] +=
        clock - now->resumed;
  now->resumed = clock;
}

static Addr bound_of(const Progress* now) {
  if (now->depth == 0) return NEVER;
  const Addr bound = now->phases[now->depth - 1].leaves_above;
  return bound == 0 ? NEVER : bound;
}

// Bits of the numbers of their names.
static ULong phases_of(const Progress* now) {
  if (now->depth == 0) return 0;
  const Phase* const innermost = &now->phases[now->depth - 1];
  return innermost->around | (ULong)1 << innermost->name % PHASE_BITS;
}

static void choose_counters(Registers* registers, const Progress* now) {
  if (executions_are_on())
    registers->counters = executions_counters(phases_of(now), now->operation);
}

static void push_phase(Progress* now, Phase phase) {
  if (now->depth == MOST_DEPTH) return;
  phase.around = phases_of(now);
  if (now->depth == now->capacity) {
    now->capacity = now->capacity == 0 ? 8 : 2 * now->capacity;
    now->phases = VG_(realloc)("tare.phases", now->phases, now->capacity * sizeof *now->phases);
  }
  now->phases[now->depth++] = phase;
}

// A phase within itself, by recursion, is one: what follows counts for it either way.
static Bool goes_on(const Progress* now, UInt name, Bool lasts_until_return) {
  if (now->depth == 0) return False;
  const Phase* const innermost = &now->phases[now->depth - 1];
  return innermost->name == name && (lasts_until_return || innermost->leaves_above == 0);
}

static void follow_innermost(Registers* registers, const Progress* now) {
  registers->phase_ends_above = bound_of(now);
  choose_counters(registers, now);
}

void phase_begin(Registers* registers, UInt name, Addr until) {
  Progress* const now = progress_of(registers->thread_id);
  charge_innermost(now, registers->clock);
  ++event_names[name].times;
  if (!goes_on(now, name, until != 0)) push_phase(now, (Phase){name, until, 0});
  follow_innermost(registers, now);
}

void phase_end(Registers* registers, UInt name) {
  Progress* const now = progress_of(registers->thread_id);
  charge_innermost(now, registers->clock);
  UInt depth = now->depth;
  while (depth > 0 && now->phases[depth - 1].name != name) --depth;
  if (depth > 0) now->depth = depth - 1;
  follow_innermost(registers, now);
}

void phases_end_above(Registers* registers, Addr stack_pointer) {
  Progress* const now = progress_of(registers->thread_id);
  charge_innermost(now, registers->clock);
  while (bound_of(now) < stack_pointer) --now->depth;
  follow_innermost(registers, now);
}

void phases_shift_clock(ThreadId thread, ULong difference) {
  if (progress[thread] != NULL) progress[thread]->resumed += difference;
}

void phases_note_operation(Registers* registers, Operation operation) {
  Progress* const now = progress_of(registers->thread_id);
  charge_innermost(now, registers->clock);
  now->operation = operation;
  choose_counters(registers, now);
}

ULong phase_of(ThreadId thread) {
  const Progress* const now = progress[thread];
  if (now == NULL || now->depth == 0) return 0;
  return executions_are_on() ? phases_of(now) : now->phases[now->depth - 1].name + 1;
}

void put_phase(VgFile* file, ULong phase) {
  if (!executions_are_on()) {
    file_put_text(file, phase == 0 ? "" : event_names[phase - 1].text);
    return;
  }
  VG_(fprintf)(file, "[");
  const HChar* separator = "";
  for (UInt name = 0; name < PHASE_BITS; ++name) {
    if ((phase >> name & 1) == 0) continue;
    VG_(fprintf)(file, "%s", separator);
    file_put_text(file, event_names[name].text);
    separator = ", ";
  }
  VG_(fprintf)(file, "]");
}

ULong phase_bit(const HChar* name) {
  for (UInt i = 0; i < names_used() && i < PHASE_BITS; ++i)
    if (event_names[i].is_phase && VG_(strcmp)(event_names[i].text, name) == 0)
      return (ULong)1 << i;
  return 0;
}

void phases_end_thread(ThreadId thread, ULong clock) {
  if (progress[thread] == NULL) return;
  charge_innermost(progress[thread], clock);
  VG_(free)(progress[thread]->phases);
  VG_(free)(progress[thread]);
  progress[thread] = NULL;
}

void phases_start_child(ThreadId thread) {
  names_start_child();
  for (UInt other = 0; other < sizeof progress / sizeof *progress; ++other) {
    if (progress[other] == NULL) continue;
    if (other == thread) {
      progress[other]->resumed = 0;
      continue;
    }
    VG_(free)(progress[other]->phases);
    VG_(free)(progress[other]);
    progress[other] = NULL;
  }
}
