// SPDX-License-Identifier: GPL-2.0-or-later
#include "description.h"

#include "executions/contexts.h"
#include "names.h"
#include "pub_tool_xarray.h"

static XArray* events;  // of Event

static void refuse(const HChar* path, UInt line, const HChar* why) {
  VG_(umsg)("%s, line %u: %s\n", path, line, why);
  VG_(exit)(1);
}

static Bool read_number(const HChar* text, Addr* number) {
  HChar* end;
  const Bool is_hexadecimal = text[0] == '0' && text[1] == 'x';
  *number = is_hexadecimal ? VG_(strtoull16)(text, &end) : VG_(strtoull10)(text, &end);
  return end != text && *end == '\0';
}

static Bool read_place(HChar* text, Event* event) {
  HChar* const mark = VG_(strchr)(text, '!');
  if (mark != NULL) {
    *mark = '\0';
    event->object = VG_(strdup)("tare.event", text);
    text = mark + 1;
  }
  event->offset = 0;
  // The core's strrchr does not look at the first character.
  HChar* const plus = text[0] == '+' ? text : VG_(strrchr)(text, '+');
  if (plus != NULL) {
    if (!read_number(plus + 1, &event->offset)) return False;
    *plus = '\0';
  } else if (mark == NULL && VG_(isdigit)(text[0])) {
    return read_number(text, &event->offset);
  }
  if (text[0] == '\0') return mark != NULL && plus != NULL;
  event->symbol = VG_(strdup)("tare.event", text);
  return True;
}

static void read_line(const HChar* path, UInt number, HChar* line) {
  static const HChar* const effects[] = {"count", "begin", "end", "during"};
  HChar* state;
  const HChar* const effect = VG_(strtok_r)(line, " \t", &state);
  if (effect == NULL || effect[0] == '#') return;
  const HChar* const name = VG_(strtok_r)(NULL, " \t", &state);
  HChar* const place = VG_(strtok_r)(NULL, " \t", &state);
  if (place == NULL || VG_(strtok_r)(NULL, " \t", &state) != NULL)
    refuse(path, number, "expected three words: what, name, place");
  Event event = {0};
  for (event.effect = COUNT; event.effect <= DURING; ++event.effect)
    if (VG_(strcmp)(effects[event.effect], effect) == 0) break;
  if (event.effect > DURING) refuse(path, number, "expected count, begin, end or during");
  event.name = name_number(name, event.effect != COUNT);
  if (event.name == MOST_NAMES) refuse(path, number, "too many names, or too long a name");
  if (executions_are_on() && event.name >= PHASE_BITS)
    refuse(path, number, "too many names to tell executions apart by phases");
  if (!read_place(place, &event)) refuse(path, number, "the place cannot be understood");
  VG_(addToXA)(events, &event);
}

void description_of_events(const HChar* path) {
  enum { MOST_BYTES = 1 << 26 };
  events = VG_(newXA)(VG_(malloc), "tare.events", VG_(free), sizeof(Event));
  const SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
  if (sr_isError(opened)) {
    VG_(umsg)("cannot read the events in %s\n", path);
    VG_(exit)(1);
  }
  const Int file = (Int)sr_Res(opened);
  const Long bytes = VG_(fsize)(file);
  if (bytes < 0 || bytes > MOST_BYTES) refuse(path, 0, "too large to be a file of events");
  HChar* const text = VG_(malloc)("tare.events", (SizeT)bytes + 1);
  const Int got = VG_(read)(file, text, (Int)bytes);
  VG_(close)(file);
  text[got < 0 ? 0 : got] = '\0';
  UInt number = 1;
  for (HChar* line = text; line != NULL; ++number) {
    HChar* const end = VG_(strchr)(line, '\n');
    if (end != NULL) *end = '\0';
    read_line(path, number, line);
    line = end == NULL ? NULL : end + 1;
  }
  VG_(free)(text);
}

UInt events_described(void) { return (UInt)VG_(sizeXA)(events); }

const Event* event_of(UInt number) { return VG_(indexXA)(events, (Word)number); }
