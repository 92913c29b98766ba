#define _GNU_SOURCE
#include "stacks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mixed.h"

enum {
  MOST_NATIVE_FRAMES = 64,  // of the JVM itself, from its code for allocation to here
  // Of an interpreted method: so many words below the frame pointer the JVM keeps which method and
  // which bytecode it is, in all releases from 11 to 25. What lies beside them changes without
  // need.
  METHOD_WORD = 3,
  BYTECODE_WORD = 8,
  MOST_MAKERS = 8,
};

struct code {
  uintptr_t begin;
  uintptr_t end;
  bool is_method;
  size_t call_count;  // 0 of native and of interpreted methods, whose calls are not told
  uintptr_t* calls;   // the places behind them
};

// What frame pointers of x86-64 and AArch64 point to.
struct frame {
  const struct frame* caller;
  uintptr_t return_address;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct code* codes;  // in the order of their addresses
static size_t code_count;
static size_t code_room;
static atomic_uintptr_t least_code = UINTPTR_MAX;
static atomic_uintptr_t most_code;
static atomic_uintptr_t interpreter_begin;
static atomic_uintptr_t interpreter_end;
static atomic_uintptr_t makers[MOST_MAKERS][2];  // stubs that make objects of one type a place
static atomic_size_t maker_count;
static atomic_uint_fast64_t generation = 1;
static atomic_uint_fast64_t collections;
static atomic_bool given_up;

static size_t index_behind(uintptr_t place) {
  size_t low = 0;
  size_t high = code_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (codes[middle].begin <= place)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const struct code* code_at(uintptr_t place) {
  const size_t behind = index_behind(place);
  return behind > 0 && place < codes[behind - 1].end ? &codes[behind - 1] : NULL;
}

static bool make_room(void) {
  if (code_count < code_room) return true;
  const size_t room = code_room == 0 ? 1024 : 2 * code_room;
  struct code* const more = realloc(codes, room * sizeof *codes);
  if (more == NULL) return false;
  codes = more;
  code_room = room;
  return true;
}

static void add_code(struct code code) {
  pthread_mutex_lock(&lock);
  const size_t index = index_behind(code.begin);
  if (index > 0 && codes[index - 1].begin == code.begin) {
    free(codes[index - 1].calls);
    codes[index - 1] = code;
  } else if (make_room()) {
    memmove(&codes[index + 1], &codes[index], (code_count - index) * sizeof *codes);
    codes[index] = code;
    ++code_count;
  } else {
    free(code.calls);
  }
  if (code.begin < least_code) least_code = code.begin;
  if (code.end > most_code) most_code = code.end;
  pthread_mutex_unlock(&lock);
}

void JNICALL on_compiled_method(jvmtiEnv* tools, jmethodID method, jint size, const void* code,
                                jint count, const jvmtiAddrLocationMap* map, const void* details) {
  (void)tools;
  (void)method;
  (void)details;
  const uintptr_t begin = (uintptr_t)code;
  const size_t call_count = count < 0 ? 0 : (size_t)count;
  uintptr_t* const calls = call_count == 0 ? NULL : malloc(call_count * sizeof *calls);
  if (calls == NULL && call_count != 0) return;
  for (size_t i = 0; i < call_count; ++i) calls[i] = (uintptr_t)map[i].start_address;
  add_code((struct code){begin, begin + (uintptr_t)size, true, call_count, calls});
}

static void forget_all(void) { ++generation; }

void JNICALL on_unloaded_method(jvmtiEnv* tools, jmethodID method, const void* code) {
  (void)tools;
  (void)method;
  pthread_mutex_lock(&lock);
  const size_t behind = index_behind((uintptr_t)code);
  if (behind > 0 && codes[behind - 1].begin == (uintptr_t)code) {
    free(codes[behind - 1].calls);
    memmove(&codes[behind - 1], &codes[behind], (code_count - behind) * sizeof *codes);
    --code_count;
  }
  pthread_mutex_unlock(&lock);
  forget_all();
}

// Of those that compiled code calls, the one for arrays of arrays makes several types at a place.
static void note_maker(const char* name, uintptr_t begin, uintptr_t end) {
  const bool makes_one_type = strstr(name, "new_") != NULL && strstr(name, "multi") == NULL &&
                              strstr(name, " Runtime1 stub") != NULL;
  const size_t count = maker_count;
  if (!makes_one_type || count == MOST_MAKERS) return;
  makers[count][0] = begin;
  makers[count][1] = end;
  maker_count = count + 1;
}

void JNICALL on_stub(jvmtiEnv* tools, const char* name, const void* code, jint size) {
  (void)tools;
  const uintptr_t begin = (uintptr_t)code;
  const uintptr_t end = begin + (uintptr_t)size;
  const bool is_interpreter = strcmp(name, "Interpreter") == 0;
  note_maker(name, begin, end);
  if (is_interpreter) {
    interpreter_begin = begin;
    interpreter_end = end;
  }
  add_code((struct code){begin, end, is_interpreter, 0, NULL});
}

void stacks_begin(jvmtiEnv* tools) {
  static const jvmtiEvent events[] = {JVMTI_EVENT_COMPILED_METHOD_LOAD,
                                      JVMTI_EVENT_DYNAMIC_CODE_GENERATED};
  for (size_t i = 0; i < sizeof events / sizeof *events; ++i)
    (*tools)->GenerateEvents(tools, events[i]);
}

void stacks_forget_interpreted(void) { ++collections; }

void stacks_give_up(void) { given_up = true; }

// Where the stack of this thread begins, its highest address. 0 where that is not known.
static uintptr_t top_of_stack(void) {
  static _Thread_local uintptr_t top;
  static _Thread_local bool asked;
  if (asked) return top;
  asked = true;
  pthread_attr_t attributes;
  void* bottom = NULL;
  size_t size = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
  if (pthread_attr_getstack(&attributes, &bottom, &size) == 0) top = (uintptr_t)bottom + size;
  pthread_attr_destroy(&attributes);
  return top;
}

static bool is_frame(const struct frame* frame, const struct frame* callee, uintptr_t top) {
  return frame > callee && (uintptr_t)frame % sizeof(uintptr_t) == 0 &&
         (uintptr_t)frame < top - sizeof *frame;
}

static bool is_java(uintptr_t place) {
  return place >= atomic_load_explicit(&least_code, memory_order_relaxed) &&
         place < atomic_load_explicit(&most_code, memory_order_relaxed);
}

static bool is_interpreted(uintptr_t place) {
  return place >= atomic_load_explicit(&interpreter_begin, memory_order_relaxed) &&
         place < atomic_load_explicit(&interpreter_end, memory_order_relaxed);
}

static bool is_maker(uintptr_t place) {
  const size_t count = atomic_load_explicit(&maker_count, memory_order_acquire);
  for (size_t i = 0; i < count; ++i)
    if (place >= atomic_load_explicit(&makers[i][0], memory_order_relaxed) &&
        place < atomic_load_explicit(&makers[i][1], memory_order_relaxed))
      return true;
  return false;
}

static uint64_t mixed_with_method(uint64_t key, const struct frame* frame) {
  const uintptr_t* const words = (const uintptr_t*)frame;
  key = mixed(key, atomic_load_explicit(&collections, memory_order_relaxed));
  return mixed(mixed(key, words[-METHOD_WORD]), words[-BYTECODE_WORD]);
}

// The JVM has frame pointers, too.
static const struct frame* innermost_called_by_java(uintptr_t top) {
  const struct frame* frame = __builtin_frame_address(0);
  for (int i = 0; i < MOST_NATIVE_FRAMES; ++i) {
    if (is_java(frame->return_address)) return frame;
    if (!is_frame(frame->caller, frame, top)) return NULL;
    frame = frame->caller;
  }
  return NULL;
}

void follow_stack(struct stack* stack) {
  stack->key = 0;
  stack->count = 0;
  stack->end = 0;
  stack->tells_type = false;
#if defined(__x86_64__) || defined(__aarch64__)
  const uintptr_t top = top_of_stack();
  if (top == 0 || atomic_load_explicit(&given_up, memory_order_relaxed)) return;
  const struct frame* frame = innermost_called_by_java(top);
  if (frame == NULL) return;
  uint64_t key = atomic_load_explicit(&generation, memory_order_relaxed);
  while (stack->count < MOST_PLACES && is_java(frame->return_address)) {
    const uintptr_t place = frame->return_address;
    if (!is_frame(frame->caller, frame, top)) return;
    frame = frame->caller;
    stack->places[stack->count++] = place;
    key = mixed(key, place);
    if (is_interpreted(place)) key = mixed_with_method(key, frame);
  }
  if (!is_java(frame->return_address)) {
    stack->end = top - (uintptr_t)frame;
    stack->outside = frame;
    key = mixed(key, stack->end);
  }
  stack->key = key;
  stack->tells_type = is_maker(stack->places[0]);
#endif
}

// The JVM called the outermost method there if it was so before in this thread, where all frames
// were seen: so near to the beginning of the stack there is no room for what would be different.
static bool is_outermost(size_t end, bool all_frames_seen) {
  static _Thread_local size_t outermost;
  if (all_frames_seen) outermost = end;
  return end == outermost;
}

// Where the JVM called the last place it may itself have been called by Java, to load a class, say.
static bool has_java_outside(const struct stack* stack) {
  const uintptr_t top = top_of_stack();
  const struct frame* frame = stack->outside;
  while (is_frame(frame->caller, frame, top)) {
    frame = frame->caller;
    if (is_java(frame->return_address)) return true;
  }
  return false;
}

// A method that was thrown out while it runs has the place of the code that goes on with it in the
// interpreter, wherever it is in the method. That place is behind none of its calls.
static bool is_behind_call(const struct code* code, uintptr_t place) {
  if (code->call_count == 0) return true;
  for (size_t i = 0; i < code->call_count; ++i)
    if (code->calls[i] == place) return true;
  return false;
}

// Stubs may stand for frames that are not on the stack: only the one that allocates does not, nor
// the one by which the JVM calls a method.
bool stack_is_sure(const struct stack* stack, jint frame_count) {
  if (stack->key == 0) return false;
  const bool whole = stack->end != 0 && !has_java_outside(stack) &&
                     is_outermost(stack->end, frame_count < MOST_FRAMES);
  size_t methods = 0;
  bool sure = true;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; sure && methods < MOST_FRAMES && i < stack->count; ++i) {
    const struct code* const code = code_at(stack->places[i]);
    const bool is_call = stack->end != 0 && i + 1 == stack->count;
    sure = code != NULL &&
           (code->is_method ? is_behind_call(code, stack->places[i]) : i == 0 || is_call);
    methods += sure && code->is_method;
  }
  pthread_mutex_unlock(&lock);
  return sure && (methods == MOST_FRAMES || whole);
}
