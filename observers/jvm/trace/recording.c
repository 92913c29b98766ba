#define _GNU_SOURCE
#include "recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "json.h"
#include "log.h"
#include "sites.h"
#include "table.h"

// A tag has the number of the object and its size in words, so that a death tells both. Objects of
// more than 1 GiB count as that much at their death.
enum { SIZE_BITS = 27, WORD_BYTES = 8 };
#define HASHES (UINT64_C(1) << 31)
#define OF_TWO UINT32_MAX

static char stem[4000];
static struct table births;
static struct table deaths;
static struct table pointers;
static struct table marks;
static struct table references;
static _Atomic(uint32_t)* numbers;  // of objects, by their hashes

// Of what was applied.
static uint64_t events;
static bool last_is_deaths;  // the last event is a moment of deaths
static uint64_t objects;
static uint64_t allocated_bytes;
static uint64_t live_objects;
static uint64_t live_words;
static uint64_t most_reachable_bytes;
static uint64_t mark_deaths;  // since the last mark began
static uint64_t mark_dead_words;
static uint64_t first_objects;
static uint64_t first_bytes;
static uint64_t late_objects;
static uint64_t stores;
static uint64_t end_references;

static atomic_uint_fast64_t born_bytes;
static atomic_uint_fast64_t due_bytes;
static atomic_uint_fast64_t late_deaths;  // told when nothing was recorded any more
static atomic_uint_fast64_t lost_stores;
static atomic_uint_fast64_t unseen_copies;
static atomic_uint_fast64_t rewritten_classes;
static atomic_uint_fast64_t unchanged_classes;
static atomic_uint_fast64_t checked_stacks;
static atomic_uint_fast64_t wrong_stacks;

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static uint32_t threads;
static uint64_t* known_threads;  // a bit of each number
static size_t thread_words;

// Of which an object takes four bytes.
static bool map_numbers(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* map = mmap(NULL, HASHES * sizeof *numbers, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) return false;
  numbers = map;
  return true;
}

// More objects than numbers: two of them would be taken for one. A test wants fewer.
static uint64_t most_objects(bool has_names) {
  const uint64_t most = has_names ? OF_TWO - 1 : MOST_BIRTHS;
  const char* fewer = getenv("TARE_JVM_TRACE_OBJECTS");
  const uint64_t wanted = fewer == NULL ? 0 : strtoull(fewer, NULL, 10);
  return wanted != 0 && wanted < most ? wanted : most;
}

// Of this JVM for the trace: written at the start, and anew at the end.
static bool write_facts(const char* end, struct found found) {
  char path[4096];
  char program[4096] = "";
  snprintf(path, sizeof path, "%s.json", stem);
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = '\0';
  FILE* file = fopen(path, "we");
  if (file == NULL) return false;
  fputs("{\"format\": \"tare-recording\", \"version\": 1, \"program\": ", file);
  write_json_text(file, program);
  fprintf(file, ", \"end\": \"%s\", \"parent\": %d", end, (int)getppid());
  const bool failed =
      births.failed || deaths.failed || pointers.failed || marks.failed || sites_failed();
  if (failed)
    fputs(", \"damage\": [\"some of it could not be written: is the disk full?\"]", file);
  else if (log_is_full())
    fprintf(file, ", \"damage\": [\"recording stopped after %llu objects: no more have a number\"]",
            (unsigned long long)objects);
  const struct {
    const char* name;
    uint64_t value;
  } facts[] = {
      {"instructions", events},
      {"allocated_bytes", allocated_bytes},
      {"max_live_bytes", most_reachable_bytes},
      {"objects", objects},
      {"threads", threads},
      {"first_objects", first_objects},
      {"first_bytes", first_bytes},
      {"late_objects", late_objects},
      {"objects_at_end", live_objects},
      {"objects_found_at_end", found.recorded},
      {"missed_objects", found.missed},
      {"missed_bytes", found.missed_bytes},
      {"stores", stores},
      {"lost_stores", lost_stores},
      {"unseen_copies", unseen_copies},
      {"rewritten_classes", rewritten_classes},
      {"unchanged_classes", unchanged_classes},
      {"checked_stacks", checked_stacks},
      {"wrong_stacks", wrong_stacks},
      {"references_at_end", end_references},
  };
  for (size_t i = 0; i < sizeof facts / sizeof *facts; ++i)
    fprintf(file, ", \"%s\": %llu", facts[i].name, (unsigned long long)facts[i].value);
  fputs("}\n", file);
  return fclose(file) == 0;
}

static uint64_t number_of(int64_t tag) {
  return (uint64_t)tag & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

static uint64_t words_of(uint64_t size) {
  const uint64_t most = (UINT64_C(1) << SIZE_BITS) - 1;
  const uint64_t words = size / WORD_BYTES;
  return words < most ? words : most;
}

static void apply_birth(enum kind kind, const struct event* event) {
  enum { OPERATION_NEW = 4 };
  ++events;
  last_is_deaths = false;
  ++objects;
  allocated_bytes += event->value;
  ++live_objects;
  live_words += words_of(event->value);
  if (kind == LATE_BIRTH) ++late_objects;
  if (kind == FIRST_BIRTH) {
    ++first_objects;
    first_bytes += event->value;
  }
  table_add(&births, (uint64_t[]){events, allocated_bytes, event->value, 0, 0, OPERATION_NEW,
                                  event->second, event->first, 0});
}

static void apply_store(const struct event* event) {
  ++events;
  last_is_deaths = false;
  ++stores;
  table_add(&pointers, (uint64_t[]){events, event->first, event->value, event->second});
}

// Deaths are told from births and stores of the same moment by coming after them.
static void tick_for_deaths(void) {
  if (!last_is_deaths) ++events;
  last_is_deaths = true;
}

static void apply_death(const struct event* event) {
  tick_for_deaths();
  const uint64_t words = event->value >> NUMBER_BITS;
  --live_objects;
  live_words -= words;
  ++mark_deaths;
  mark_dead_words += words;
  table_add(&deaths, (uint64_t[]){number_of((int64_t)event->value), events, allocated_bytes, 0});
}

static void apply_mark_end(void) {
  tick_for_deaths();
  const uint64_t bytes = live_words * WORD_BYTES;
  if (bytes > most_reachable_bytes) most_reachable_bytes = bytes;
  table_add(&marks, (uint64_t[]){events, allocated_bytes, live_objects + mark_deaths,
                                 bytes + mark_dead_words * WORD_BYTES, live_objects, bytes});
}

static void apply(enum kind kind, const struct event* event) {
  switch (kind) {
    case DEATH:
      apply_death(event);
      break;
    case STORE:
      apply_store(event);
      break;
    case MARK_BEGIN:
      mark_deaths = 0;
      mark_dead_words = 0;
      break;
    case MARK_END:
      apply_mark_end();
      break;
    default:
      apply_birth(kind, event);
  }
}

bool recording_open(const char* folder, bool wants_pointers) {
  const int length = snprintf(stem, sizeof stem, "%s/%d.0", folder, (int)getpid());
  if (length < 0 || (size_t)length >= sizeof stem) return false;
  if (!table_open(&births, stem, "births",
                  "instructions bytes size usable_size alignment operation thread site "
                  "resized_from") ||
      !table_open(&deaths, stem, "deaths",
                  "id unreachable_instructions unreachable_bytes free_bytes") ||
      !table_open(&marks, stem, "marks",
                  "instructions bytes live_objects live_bytes reachable_objects "
                  "reachable_bytes") ||
      !sites_open(stem))
    return false;
  if (wants_pointers &&
      (!table_open(&pointers, stem, "pointers", "instructions source offset target") ||
       !table_open(&references, stem, "references", "source target") || !map_numbers()))
    return false;
  log_open(most_objects(wants_pointers), apply);
  return write_facts("running", (struct found){0});
}

static int64_t add_birth(enum kind kind, struct birth birth) {
  const uint64_t number = log_add(kind, birth.size, birth.site, birth.thread);
  if (number == 0) return 0;
  atomic_fetch_add_explicit(&born_bytes, birth.size, memory_order_relaxed);
  return (int64_t)(number | words_of(birth.size) << NUMBER_BITS);
}

int64_t recording_birth(struct birth birth) { return add_birth(BIRTH, birth); }

int64_t recording_late_birth(uint64_t size) {
  return add_birth(LATE_BIRTH, (struct birth){size, NO_SITE, JVM_THREAD});
}

int64_t recording_first_birth(uint64_t size) {
  return add_birth(FIRST_BIRTH, (struct birth){size, NO_SITE, JVM_THREAD});
}

void recording_death(int64_t tag) {
  if (log_add(DEATH, (uint64_t)tag, 0, 0) == 0)
    atomic_fetch_add_explicit(&late_deaths, 1, memory_order_relaxed);
}

uint64_t recording_late_deaths(void) { return atomic_load(&late_deaths); }

void recording_mark_begin(void) { log_add(MARK_BEGIN, 0, 0, 0); }

void recording_mark_end(void) { log_add(MARK_END, 0, 0, 0); }

bool recording_is_due(uint64_t period) {
  const uint64_t now = atomic_load_explicit(&born_bytes, memory_order_relaxed);
  uint64_t due = atomic_load_explicit(&due_bytes, memory_order_relaxed);
  return now >= due && !log_is_stopped() &&
         atomic_compare_exchange_strong(&due_bytes, &due, now + period);
}

void recording_thread(uint32_t number) {
  enum { WORD_BITS = 64, FIRST_WORDS = 1024 };
  const size_t word = number / WORD_BITS;
  const uint64_t bit = UINT64_C(1) << number % WORD_BITS;
  pthread_mutex_lock(&counting);
  if (word >= thread_words) {
    const size_t words = 2 * word + FIRST_WORDS;
    uint64_t* const more = realloc(known_threads, words * sizeof *more);
    if (more != NULL) {
      memset(more + thread_words, 0, (words - thread_words) * sizeof *more);
      known_threads = more;
      thread_words = words;
    }
  }
  if (number != JVM_THREAD && word < thread_words) {
    threads += (known_threads[word] & bit) == 0;
    known_threads[word] |= bit;
  }
  pthread_mutex_unlock(&counting);
}

// The JVM counts hashes without a lock, and so draws some twice. Neither object is known by such a
// hash.
void recording_name(uint32_t hash, int64_t tag) {
  if (hash >= HASHES || numbers == NULL) return;
  const uint32_t number = (uint32_t)number_of(tag);
  uint32_t named = 0;
  if (!atomic_compare_exchange_strong(&numbers[hash], &named, number) && named != number)
    atomic_store(&numbers[hash], OF_TWO);
}

// 0: of no object, or of none that is known by its hash.
static uint32_t number_of_hash(uint32_t hash) {
  if (hash == 0 || hash >= HASHES || numbers == NULL) return 0;
  const uint32_t number = atomic_load_explicit(&numbers[hash], memory_order_acquire);
  return number == OF_TWO ? 0 : number;
}

bool recording_store(uint32_t source, uint64_t offset, uint32_t target) {
  const uint32_t from = number_of_hash(source), to = number_of_hash(target);
  const bool known = (source == 0 || from != 0) && (target == 0 || to != 0);
  if (known) log_add(STORE, offset, from, to);
  return known || log_is_stopped();
}

void recording_exact_store(int64_t source, uint64_t offset, int64_t target) {
  log_add(STORE, offset, (uint32_t)number_of(source), (uint32_t)number_of(target));
}

static void count(atomic_uint_fast64_t* what) {
  if (!log_is_stopped()) atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

void recording_lost_store(void) { count(&lost_stores); }

void recording_unseen_copy(void) { count(&unseen_copies); }

void recording_class(bool rewritten) { count(rewritten ? &rewritten_classes : &unchanged_classes); }

void recording_checked_stack(bool was_right) {
  count(&checked_stacks);
  if (!was_right) count(&wrong_stacks);
}

void recording_reference(int64_t source, int64_t target) {
  ++end_references;
  table_add(&references, (uint64_t[]){number_of(source), number_of(target)});
}

void recording_stop(void) { log_stop(); }

void recording_end(struct found found) {
  struct table* const tables[] = {&births, &deaths, &pointers, &marks, &references};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) table_flush(tables[i]);
  pthread_mutex_lock(&counting);
  write_facts("exit", found);
  pthread_mutex_unlock(&counting);
}
