// SPDX-License-Identifier: GPL-2.0-or-later
#include "events.h"

#include "executions.h"
#include "files.h"
#include "memsys/feed.h"
#include "pub_tool_xarray.h"
#include "symbols.h"

enum {
  MOST_NAMES = 1024,
  NAME_BYTES = 64,
  MOST_DEPTH = 1 << 16,
  OUTSIDE = OP_COUNT,
  PHASE_BITS = 64
};

typedef enum { COUNT, BEGIN, END, DURING } Effect;

typedef struct {
  Effect effect;
  UInt name;
  HChar* object;  // NULL: any
  HChar* symbol;  // NULL: the offset is an address
  Addr offset;
} Event;

typedef struct _Place {
  struct _Place* next;
  UWord address;
  XArray* events;  // of UInt, indices of events
} Place;

typedef struct {
  HChar text[NAME_BYTES];
  Bool is_phase;
  ULong times;
  ULong instructions[OP_COUNT + 1];  // of a phase, by the operation they were part of
} Name;

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

Bool events_were_read;
static XArray* events;  // of Event
static Name names[MOST_NAMES];
static UInt names_used;
static VgHashTable* places;
static Progress* progress[1 << 16];  // by thread; NULL: none

// ---- places ----

static void add_place(Addr address, UInt event) {
  Place* place = VG_(HT_lookup)(places, address);
  if (place == NULL) {
    place = VG_(calloc)("tare.event place", 1, sizeof *place);
    place->address = address;
    place->events = VG_(newXA)(VG_(malloc), "tare.event place", VG_(free), sizeof(UInt));
    VG_(HT_add_node)(places, place);
  }
  for (Word i = 0; i < VG_(sizeXA)(place->events); ++i)
    if (*(const UInt*)VG_(indexXA)(place->events, i) == event) return;  // another of its names
  VG_(addToXA)(place->events, &event);
}

// Objects come and go, and what lies at an address in the process stays wanted.
static void add_fixed_places(void) {
  for (Word i = 0; i < VG_(sizeXA)(events); ++i) {
    const Event* const event = VG_(indexXA)(events, i);
    if (event->object == NULL && event->symbol == NULL) add_place(event->offset, (UInt)i);
  }
}

// ---- reading ----

static void refuse(const HChar* path, UInt line, const HChar* why) {
  VG_(umsg)("%s, line %u: %s\n", path, line, why);
  VG_(exit)(1);
}

static UInt name_of(const HChar* text, Bool is_phase) {
  for (UInt i = 0; i < names_used; ++i)
    if (names[i].is_phase == is_phase && VG_(strcmp)(names[i].text, text) == 0) return i;
  if (names_used == MOST_NAMES || VG_(strlen)(text) >= NAME_BYTES) return MOST_NAMES;
  VG_(strcpy)(names[names_used].text, text);
  names[names_used].is_phase = is_phase;
  return names_used++;
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
  event.name = name_of(name, event.effect != COUNT);
  if (event.name == MOST_NAMES) refuse(path, number, "too many names, or too long a name");
  if (executions_are_on() && event.name >= PHASE_BITS)
    refuse(path, number, "too many names to tell executions apart by phases");
  if (!read_place(place, &event)) refuse(path, number, "the place cannot be understood");
  VG_(addToXA)(events, &event);
}

void events_read(const HChar* path) {
  events_were_read = True;
  enum { MOST_BYTES = 1 << 26 };
  events = VG_(newXA)(VG_(malloc), "tare.events", VG_(free), sizeof(Event));
  places = VG_(HT_construct)("tare.event places");
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
  add_fixed_places();
}

// ---- loading ----

static Bool is_in(const Event* event, const DebugInfo* info) {
  if (event->object == NULL) return True;
  const HChar* const file = VG_(DebugInfo_get_filename)(info);
  if (file == NULL) return False;
  const SizeT length = VG_(strlen)(file), wanted = VG_(strlen)(event->object);
  return length >= wanted && VG_(strcmp)(file + length - wanted, event->object) == 0;
}

static void add_symbol(const DebugInfo* info, const HChar* symbol, Addr address, Bool is_resolver,
                       void* unused) {
  (void)is_resolver, (void)unused;
  for (Word i = 0; i < VG_(sizeXA)(events); ++i) {
    const Event* const event = VG_(indexXA)(events, i);
    if (event->symbol != NULL && VG_(strcmp)(event->symbol, symbol) == 0 && is_in(event, info))
      add_place(address + event->offset, (UInt)i);
  }
}

void events_follow_loading(const DebugInfo* info) {
  if (events == NULL) return;
  add_fixed_places();
  for (Word i = 0; i < VG_(sizeXA)(events); ++i) {
    const Event* const event = VG_(indexXA)(events, i);
    if (event->symbol == NULL && event->object != NULL && is_in(event, info))
      add_place(event->offset + (Addr)VG_(DebugInfo_get_text_bias)(info), (UInt)i);
  }
  symbols_visit(info, add_symbol, NULL);
}

void events_forget(Addr start, SizeT bytes) {
  if (events == NULL) return;
  UInt count;
  VgHashNode** const nodes = VG_(HT_to_array)(places, &count);
  for (UInt i = 0; i < count; ++i) {
    if (nodes[i]->key - start >= bytes) continue;
    Place* const place = VG_(HT_remove)(places, nodes[i]->key);
    VG_(deleteXA)(place->events);
    VG_(free)(place);
  }
  if (nodes != NULL) VG_(free)(nodes);
}

// ---- phases ----

static Progress* progress_of(ThreadId thread) {
  if (progress[thread] == NULL) {
    progress[thread] = VG_(calloc)("tare.progress", 1, sizeof *progress[thread]);
    progress[thread]->operation = OUTSIDE;
  }
  return progress[thread];
}

static void settle(Progress* now, ULong clock) {
  if (now->depth > 0)
    names[now->phases[now->depth - 1].name].instructions[now->operation] += clock - now->resumed;
  now->resumed = clock;
}

static Addr bound_of(const Progress* now) {
  if (now->depth == 0) return ~(Addr)0;
  const Addr bound = now->phases[now->depth - 1].leaves_above;
  return bound == 0 ? ~(Addr)0 : bound;
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
static Bool goes_on(const Progress* now, const Event* event) {
  if (now->depth == 0) return False;
  const Phase* const innermost = &now->phases[now->depth - 1];
  return innermost->name == event->name &&
         (event->effect == DURING || innermost->leaves_above == 0);
}

static HELPER void change_phase(GuestState* state, UWord index) {
  const Event* const event = VG_(indexXA)(events, (Word)index);
  Registers* const registers = registers_of(state);
  Progress* const now = progress_of(registers->thread_id);
  settle(now, registers->clock);
  if (event->effect != END) {
    ++names[event->name].times;
    if (!goes_on(now, event))
      push_phase(now,
                 (Phase){event->name, event->effect == DURING ? state->GUEST_STACK_POINTER : 0, 0});
  } else {
    UInt depth = now->depth;
    while (depth > 0 && now->phases[depth - 1].name != event->name) --depth;
    if (depth > 0) now->depth = depth - 1;
  }
  registers->phase_ends_above = bound_of(now);
  choose_counters(registers, now);
  if (feed_is_on()) feed_set_phase(events_phase(registers->thread_id));
}

static HELPER void end_phases(GuestState* state, UWord unused) {
  (void)unused;
  Registers* const registers = registers_of(state);
  Progress* const now = progress_of(registers->thread_id);
  settle(now, registers->clock);
  while (bound_of(now) < state->GUEST_STACK_POINTER) --now->depth;
  registers->phase_ends_above = bound_of(now);
  choose_counters(registers, now);
  if (feed_is_on()) feed_set_phase(events_phase(registers->thread_id));
}

void events_add(Translation* translation, Addr instruction) {
  const Place* const place = events == NULL ? NULL : VG_(HT_lookup)(places, instruction);
  if (place == NULL) return;
  for (Word i = 0; i < VG_(sizeXA)(place->events); ++i) {
    const UInt index = *(const UInt*)VG_(indexXA)(place->events, i);
    const Event* const event = VG_(indexXA)(events, index);
    if (event->effect == COUNT) {
      IRExpr* const times = word((Addr)&names[event->name].times);
      store(translation, times,
            binary(translation, Iop_Add64, load(translation, Ity_I64, times), number(1)));
    } else {
      bring_up_to_date(translation);
      if (feed_is_on()) feed_before_call(translation);
      call_if(translation, NULL, "change_phase", change_phase, word(index));
    }
  }
}

void events_add_return(Translation* translation) {
  if (events == NULL) return;
  IRExpr* const bound = get_address_register(translation, offsetof(Registers, phase_ends_above));
  IRExpr* const stack_pointer = get_word(translation, translation->stack_pointer);
  call_if(translation, binary(translation, WORD_BELOW, bound, stack_pointer), "end_phases",
          end_phases, word(0));
}

void events_shift_clock(ThreadId thread, ULong difference) {
  if (progress[thread] != NULL) progress[thread]->resumed += difference;
}

void events_note_operation(Registers* registers, Operation operation) {
  Progress* const now = progress_of(registers->thread_id);
  settle(now, registers->clock);
  now->operation = operation;
  choose_counters(registers, now);
}

ULong events_phase(ThreadId thread) {
  const Progress* const now = progress[thread];
  if (now == NULL || now->depth == 0) return 0;
  return executions_are_on() ? phases_of(now) : now->phases[now->depth - 1].name + 1;
}

void events_put_phase(VgFile* file, ULong phase) {
  if (!executions_are_on()) {
    file_put_text(file, phase == 0 ? "" : names[phase - 1].text);
    return;
  }
  VG_(fprintf)(file, "[");
  const HChar* separator = "";
  for (UInt name = 0; name < PHASE_BITS; ++name) {
    if ((phase >> name & 1) == 0) continue;
    VG_(fprintf)(file, "%s", separator);
    file_put_text(file, names[name].text);
    separator = ", ";
  }
  VG_(fprintf)(file, "]");
}

ULong events_phase_bit(const HChar* name) {
  for (UInt i = 0; i < names_used && i < PHASE_BITS; ++i)
    if (names[i].is_phase && VG_(strcmp)(names[i].text, name) == 0) return (ULong)1 << i;
  return 0;
}

void events_end_thread(ThreadId thread, ULong clock) {
  if (progress[thread] == NULL) return;
  settle(progress[thread], clock);
  VG_(free)(progress[thread]->phases);
  VG_(free)(progress[thread]);
  progress[thread] = NULL;
}

void events_start_child(ThreadId thread) {
  for (UInt i = 0; i < names_used; ++i) {
    names[i].times = 0;
    VG_(memset)(names[i].instructions, 0, sizeof names[i].instructions);
  }
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

// ---- writing ----

static void write_phase(VgFile* file, const Name* name) {
  ULong sum = 0;
  for (UInt i = 0; i <= OP_COUNT; ++i) sum += name->instructions[i];
  VG_(fprintf)
  (file, "{\"times\": %llu, \"instructions\": %llu, \"by_operation\": {", name->times, sum);
  const HChar* separator = "";
  for (Operation operation = 0; operation < OP_COUNT; ++operation) {
    if (name->instructions[operation] == 0) continue;
    VG_(fprintf)
    (file, "%s\"%s\": %llu", separator, operation_names[operation], name->instructions[operation]);
    separator = ", ";
  }
  VG_(fprintf)(file, "}}");
}

void events_write(VgFile* file) {
  for (UInt phases = 0; phases <= 1; ++phases) {
    const HChar* separator = "";
    VG_(fprintf)(file, " \"%s\": {", phases == 0 ? "events" : "phases");
    for (UInt i = 0; i < names_used; ++i) {
      if (names[i].is_phase != (phases == 1)) continue;
      VG_(fprintf)(file, "%s", separator);
      file_put_text(file, names[i].text);
      VG_(fprintf)(file, ": ");
      if (phases == 1)
        write_phase(file, &names[i]);
      else
        VG_(fprintf)(file, "%llu", names[i].times);
      separator = ",\n  ";
    }
    VG_(fprintf)(file, "},\n");
  }
}
