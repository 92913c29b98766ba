// SPDX-License-Identifier: GPL-2.0-or-later
#include "events.h"

#include "description.h"
#include "executions/clock.h"
#include "guest/registers.h"
#include "memsys/feed.h"
#include "names.h"
#include "phases.h"
#include "places.h"

Bool events_were_read;

void events_read(const HChar* path) {
  events_were_read = True;
  description_of_events(path);
  places_initialise();
}

static void charge_accesses(const Registers* registers) {
  if (feed_is_on()) feed_set_phase(phase_of(registers->thread_id));
}

static HELPER void change_phase(GuestState* state, const Event* event) {
  Registers* const registers = registers_of(state);
  if (event->effect == END)
    phase_end(registers, event->name);
  else
    phase_begin(registers, event->name, event->effect == DURING ? guest_call_place(state) : 0);
  charge_accesses(registers);
}

static HELPER void end_phases(GuestState* state, UWord unused) {
  (void)unused;
  Registers* const registers = registers_of(state);
  phases_end_above(registers, state->GUEST_STACK_POINTER);
  charge_accesses(registers);
}

void events_add(Translation* translation, Addr instruction) {
  XArray* const there = events_were_read ? events_at(instruction) : NULL;
  if (there == NULL) return;
  for (Word i = 0; i < VG_(sizeXA)(there); ++i) {
    const Event* const event = event_of(*(const UInt*)VG_(indexXA)(there, i));
    if (event->effect == COUNT) {
      IRExpr* const times = word((Addr)&event_names[event->name].times);
      store(translation, times,
            binary(translation, Iop_Add64, load(translation, Ity_I64, times), number(1)));
    } else {
      bring_up_to_date(translation);
      if (feed_is_on()) feed_before_call(translation);
      call_if(translation, NULL, "change_phase", change_phase, word((Addr)event));
    }
  }
}

void events_add_return(Translation* translation) {
  if (!events_were_read) return;
  IRExpr* const bound = get_address_register(translation, offsetof(Registers, phase_ends_above));
  IRExpr* const end = get_end_of_calls(translation);
  call_if(translation, binary(translation, WORD_BELOW, bound, end), "end_phases", end_phases,
          word(0));
}
