// SPDX-License-Identifier: GPL-2.0-or-later
#include "threads.h"

#include "costs.h"
#include "counts.h"
#include "events.h"
#include "executions.h"
#include "memsys/feed.h"
#include "objects.h"
#include "reachability.h"
#include "regions.h"
#include "sites.h"
#include "trace.h"

#define NEVER (~(Addr)0)

// A frame is an operation of the manager, or a signal handler with what it interrupted. A handler
// may itself allocate, and may be interrupted in turn, so the frames are a stack.
// A call of malloc_usable_size that the program does not know of: what it is to find as it was.
typedef struct {
  Bool is_open;
  ULong clock;  // the thread's, which does not count the call
  ULong rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
} Question;

typedef struct {
  const Entry* entry;  // NULL: a signal handler
  Addr stack_pointer;  // at the operation's first instruction, or where the handler interrupted
  Addr returns_to;
  ULong arguments[3];
  ULong resumed;       // the clock when the operation began or went on
  ULong instructions;  // before it was last interrupted
  UInt forks;          // of the process before the operation began
  UInt site;           // that called the operation
  UInt resized;        // slot of the object that a realloc is given
  ULong resized_id;
  Addr calls;  // of a handler: what sites_leave_handler takes
  Question question;
} Frame;

struct _Thread {
  ThreadId id;
  UInt number;  // from 0, in the order of their start
  Frame* frames;
  UInt used;
  UInt capacity;
  ULong clock_of_handler;  // when it returned
  UInt own;                // calls of threads_begin_own without an end
};

static Thread* threads[1 << 16];
static UInt forks_so_far;
static ThreadId running = VG_INVALID_THREADID;  // the thread whose clock is the process's
static ULong clock_at_end;                      // of the last running thread that has ended

static Registers load_registers(ThreadId id) {
  Registers registers;
  VG_(get_shadow_regs_area)
  (id, (UChar*)&registers, REGISTERS_AREA, REGISTERS_OFFSET, sizeof registers);
  return registers;
}

static void store_registers(ThreadId id, const Registers* registers) {
  VG_(set_shadow_regs_area)
  (id, REGISTERS_AREA, REGISTERS_OFFSET, sizeof *registers, (const UChar*)registers);
}

static inline Frame* top(const Thread* thread) {
  return thread->used > 0 ? &thread->frames[thread->used - 1] : NULL;
}

static inline Frame* push(Thread* thread) {
  if (thread->used == thread->capacity) {
    thread->capacity = thread->capacity == 0 ? 8 : 2 * thread->capacity;
    thread->frames =
        VG_(realloc)("tare.frames", thread->frames, thread->capacity * sizeof *thread->frames);
  }
  Frame* const frame = &thread->frames[thread->used++];
  frame->entry = NULL;
  frame->instructions = 0;
  frame->forks = forks_so_far;
  frame->question.is_open = False;
  return frame;
}

static void charge_accesses(const Thread* thread) {
  if (!feed_is_on()) return;
  const Frame* const frame = top(thread);
  if (frame != NULL && frame->entry != NULL && frame->entry->operation != OP_COUNT)
    feed_set_operation(frame->entry->operation + 1, frame->returns_to - 1);
  else
    feed_set_operation(0, 0);
  feed_set_phase(events_phase(thread->id));
}

static inline void note_operation(Registers* registers, Operation operation) {
  if (events_are_on() || executions_are_on()) events_note_operation(registers, operation);
}

// Of a thread as it stands: instructions of a question that is not answered yet do not count.
static ULong clock_of(const Registers* registers) {
  const Frame* const frame = top(registers->thread);
  return frame != NULL && frame->question.is_open ? frame->question.clock : registers->clock;
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

static inline void follow_top(const Thread* thread, Registers* registers) {
  Frame* const frame = top(thread);
  if (frame != NULL && frame->entry != NULL)
    be_inside(thread, registers, frame);
  else
    be_outside(thread, registers);
}

static void charge(const Frame* frame) {
  if (frame->forks != forks_so_far) return;
  count_call(frame->entry->operation, frame->instructions);
  if (costs_are_on()) costs_count_call(frame->site, frame->entry->operation, frame->instructions);
}

static Bool on_signal_stack(const Thread* thread, Addr stack_pointer) {
  return stack_pointer - VG_(thread_get_altstack_min)(thread->id) <
         VG_(thread_get_altstack_size)(thread->id);
}

Bool is_on_stack(const Thread* thread, Addr stack_pointer, Addr address) {
  enum { RED_ZONE = 128 };  // System V ABI: below the stack pointer, and in use
  return (address >= stack_pointer - RED_ZONE &&
          address <= VG_(thread_get_stack_max)(thread->id)) ||
         on_signal_stack(thread, address);
}

static void leave_calls_of_handler(Registers* registers, const Frame* handler) {
  if (sites_are_on()) sites_leave_handler(registers, handler->calls);
}

// A handler that ended by a longjmp never returns to what it interrupted: frames below `lowest` are
// over. Frames on the signal stack are, once the thread is not on it.
static void drop_abandoned(Thread* thread, Registers* registers, Addr stack_pointer, Addr lowest) {
  const Bool here = on_signal_stack(thread, stack_pointer);
  Frame* frame;
  while ((frame = top(thread)) != NULL) {
    const Bool there = on_signal_stack(thread, frame->stack_pointer);
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

static void note_arguments(const GuestState* state, Registers* registers, Frame* frame) {
  const Entry* const entry = frame->entry;
  for (UInt i = 0; i < sizeof frame->arguments / sizeof *frame->arguments; ++i)
    frame->arguments[i] = guest_argument(state, i);
  if (entry->shape == ENDS_FIRST && frame->arguments[0] != 0 &&
      !regions_take_own(frame->arguments[0]))
    object_died(frame->arguments[0], registers->clock);
  if (entry->shape == RESIZES || entry->shape == RESIZES_ELEMENTS) {
    frame->resized = object_at(frame->arguments[0]);
    frame->resized_id = object_in(frame->resized)->id;
  }
  const Bool has_site = sites_are_on() && (gives_objects(entry) || costs_are_on());
  frame->site = has_site ? site_of(registers, frame->stack_pointer) : 0;
}

HELPER void enter_operation(GuestState* state, const Entry* entry) {
  Registers* const registers = registers_of(state);
  Thread* const thread = registers->thread;
  // Whatever is still going on began further up the stack than what begins here.
  const Addr stack_pointer = state->GUEST_STACK_POINTER;
  if (thread->used > 0) drop_abandoned(thread, registers, stack_pointer, stack_pointer + 1);
  Frame* const frame = push(thread);
  frame->entry = entry;
  frame->stack_pointer = stack_pointer;
  frame->returns_to = *(const Addr*)stack_pointer;  // the call has just written it
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
  frame->stack_pointer = state->GUEST_STACK_POINTER;
  frame->returns_to = *(const Addr*)state->GUEST_STACK_POINTER;
  be_inside(thread, registers, frame);
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
  if (thread->own != 0) return regions_add_own(birth->address, birth->size);
  object_born(birth);
  reachability_after_birth(birth->address, birth->clock);
}

static void note_resize(const Thread* thread, OperationCount* count, const Frame* frame,
                        const Birth* birth) {
  const Addr from = frame->arguments[0];
  if (from == 0 || (birth->address != 0 && regions_take_own(from))) {
    note_birth(thread, count, birth);
  } else if (birth->address != 0) {
    note_bytes(count, birth);
    // Another thread may have been given the old address in the meantime.
    const Bool is_there = object_in(frame->resized)->address == from &&
                          object_in(frame->resized)->id == frame->resized_id;
    object_resized(is_there ? frame->resized : 0, birth);
    reachability_after_birth(birth->address, birth->clock);
  } else if (birth->size == 0) {
    object_died(from, birth->clock);
  } else {
    ++count->no_object;
  }
}

static void note_effect(const Thread* thread, const Frame* frame, Addr result, SizeT usable_size,
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

static void end_operation(Registers* registers, Addr next, Addr result, SizeT usable_size) {
  Thread* const thread = registers->thread;
  Frame* const frame = top(thread);
  tl_assert(frame != NULL && frame->entry != NULL);
  frame->instructions += registers->clock - frame->resumed;
  if (frame->forks == forks_so_far) {
    charge(frame);
    if (next != frame->returns_to)
      ++operation_counts[frame->entry->operation].left;
    else if (frame->entry->shape == RESOLVES)
      entries_add_resolved(frame->entry, result);
    else if (FOLLOWS_MEMORY)
      note_effect(thread, frame, result, usable_size, registers->clock);
  }
  --thread->used;
  follow_top(thread, registers);
}

HELPER void leave_operation(GuestState* state, Addr next) {
  Registers* const registers = registers_of(state);
  // Of a calloc that ends by a jump to memset both are over.
  while (registers->leaves_above < state->GUEST_STACK_POINTER)
    end_operation(registers, next, state->GUEST_RESULT, 0);
}

#if defined(VGA_amd64)  // what is asked for a recording

static Addr new_object(const Frame* frame, Addr result) {
  if (frame->entry->shape != WANTS_THIRD) return result;
  return (Int)result == 0 ? *(const Addr*)frame->arguments[0] : 0;
}

// The program's registers and stack are made as if it had called `function` in place of returning.
static void ask(VexGuestAMD64State* state, Question* question, Addr object, Addr next) {
  *question = (Question){.is_open = True,
                         .clock = registers_of(state)->clock,
                         .rax = state->guest_RAX,
                         .rcx = state->guest_RCX,
                         .rdx = state->guest_RDX,
                         .rsi = state->guest_RSI,
                         .rdi = state->guest_RDI,
                         .r8 = state->guest_R8,
                         .r9 = state->guest_R9,
                         .r10 = state->guest_R10,
                         .r11 = state->guest_R11};
  state->guest_RDI = object;
  state->guest_RSP -= sizeof(Addr);
  *(Addr*)state->guest_RSP = next;
}

static SizeT take_answer(VexGuestAMD64State* state, Question* question) {
  const SizeT usable_size = state->guest_RAX;
  state->guest_RAX = question->rax;
  state->guest_RCX = question->rcx;
  state->guest_RDX = question->rdx;
  state->guest_RSI = question->rsi;
  state->guest_RDI = question->rdi;
  state->guest_R8 = question->r8;
  state->guest_R9 = question->r9;
  state->guest_R10 = question->r10;
  state->guest_R11 = question->r11;
  question->is_open = False;
  return usable_size;
}

HELPER Addr ask_and_leave_operation(VexGuestAMD64State* state, Addr next) {
  Registers* const registers = registers_of(state);
  Frame* const frame = top(registers->thread);
  tl_assert(frame != NULL && frame->entry != NULL);
  if (frame->question.is_open) {
    registers->clock = frame->question.clock;  // as if nothing had been executed
    const SizeT usable_size = take_answer(state, &frame->question);
    end_operation(registers, next, state->guest_RAX, usable_size);
    return next;
  }
  const Addr function = usable_size_function();
  const Addr object = new_object(frame, state->guest_RAX);
  if (function == 0 || object == 0 || next != frame->returns_to || !gives_objects(frame->entry)) {
    end_operation(registers, next, state->guest_RAX, 0);
    return next;
  }
  ask(state, &frame->question, object, next);
  registers->leaves_above = frame->stack_pointer = state->guest_RSP;
  return function;
}

#endif

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
  events_shift_clock(id, by_others);
  registers.clock = clock;
  store_registers(id, &registers);
  charge_accesses(registers.thread);
}

Bool is_in_manager(ThreadId id) { return load_registers(id).inside != 0; }

ULong threads_clock(void) {
  if (running == VG_INVALID_THREADID) return clock_at_end;
  const Registers registers = load_registers(running);
  return clock_of(&registers);
}

Moment threads_moment(ThreadId id, Addr frame) {
  const Registers registers = load_registers(id);
  const Addr returns_to = frame + sizeof(Addr);  // where that address lies
  return (Moment){registers.thread->number,
                  sites_are_on() ? site_of_outer(&registers, returns_to) : 0};
}

void threads_begin_own(ThreadId id) { ++threads[id]->own; }

void threads_end_own(ThreadId id) {
  if (threads[id]->own != 0) --threads[id]->own;
}

static void start_thread(ThreadId id) {
  if (threads[id] == NULL) threads[id] = VG_(calloc)("tare.thread", 1, sizeof(Thread));
  threads[id]->id = id;
  threads[id]->number = (UInt)process_count.threads++;
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
  events_end_thread(id, registers.clock);
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
  // An operation may be interrupted at its first instruction.
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
  ++forks_so_far;
  counts_reset();
  if (FOLLOWS_MEMORY) objects_inherit();
  process_count.threads = 1;
  for (UInt other = 0; other < sizeof threads / sizeof *threads; ++other) {
    if (other == id || threads[other] == NULL) continue;
    VG_(free)(threads[other]->frames);
    VG_(free)(threads[other]);
    threads[other] = NULL;
  }
  threads[id]->number = 0;
  running = id;
  Registers registers = load_registers(id);
  registers.clock = 0;
  events_start_child(id);
  if (executions_are_on()) executions_start_child();
  if (sites_are_on()) sites_start_child(&registers, id);
  store_registers(id, &registers);
  if (FOLLOWS_MEMORY) trace_start_child();
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
