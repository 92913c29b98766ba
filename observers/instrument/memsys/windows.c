// SPDX-License-Identifier: GPL-2.0-or-later
#include "windows.h"

enum { SNAPSHOTS = 16 };

static ULong length;

// The program's events some time ago, to look back from the beginning of a collection.
static struct {
  Events* ring[SNAPSHOTS];
  UInt used;
  UInt next;
  Events* since_collection;  // the program's events at its end; valid while is_after
  Bool is_after;
  ULong collections;
  Events* before;
  Events* after;
} windows;

static void forget_snapshots(void) { windows.used = windows.next = 0; }

static void take_snapshot(const Events* program) {
  events_copy(windows.ring[windows.next], program);
  windows.next = (windows.next + 1) % SNAPSHOTS;
  if (windows.used < SNAPSHOTS) ++windows.used;
}

static void end_window_after(const Events* program) {
  if (windows.is_after) events_add_difference(windows.after, program, windows.since_collection);
  windows.is_after = False;
}

static const Events* latest_snapshot(void) {
  return windows.ring[(windows.next + SNAPSHOTS - 1) % SNAPSHOTS];
}

void windows_note_progress(const Events* program) {
  const ULong now = program->instructions;
  if (windows.used == 0 || now - latest_snapshot()->instructions >= length / (SNAPSHOTS - 1))
    take_snapshot(program);
  if (windows.is_after && now - windows.since_collection->instructions >= length)
    end_window_after(program);
}

void windows_begin_collection(const Events* program) {
  ++windows.collections;
  end_window_after(program);
  const ULong now = program->instructions;
  const Events* then = NULL;
  for (UInt back = 1; back <= windows.used; ++back) {
    then = windows.ring[(windows.next + SNAPSHOTS - back) % SNAPSHOTS];
    if (now - then->instructions >= length) break;
  }
  if (then != NULL) events_add_difference(windows.before, program, then);
}

void windows_end_collection(const Events* program) {
  forget_snapshots();
  take_snapshot(program);
  events_copy(windows.since_collection, program);
  windows.is_after = True;
}

void windows_initialise(ULong instructions) {
  length = instructions;
  for (UInt i = 0; i < SNAPSHOTS; ++i) windows.ring[i] = events_new();
  windows.since_collection = events_new();
  windows.before = events_new();
  windows.after = events_new();
}

ULong collections(void) { return windows.collections; }

const Events* events_before_collections(void) { return windows.before; }

const Events* events_after_collections(void) { return windows.after; }

void windows_reset(void) {
  events_clear(windows.before);
  events_clear(windows.after);
  forget_snapshots();
  windows.is_after = False;
  windows.collections = 0;
}
