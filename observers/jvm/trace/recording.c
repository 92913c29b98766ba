#define _GNU_SOURCE
#include "recording.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "json.h"
#include "sites.h"
#include "table.h"

// A tag has the number of the object and its size in words, so that a death tells both. Objects of
// more than 1 GiB count as that much at their death.
enum { NUMBER_BITS = 36, SIZE_BITS = 27, WORD_BYTES = 8 };
#define HASHES (UINT64_C(1) << 31)
#define OF_TWO UINT32_MAX

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char stem[4000];
static struct table births;
static struct table deaths;
static struct table pointers;
static struct table marks;
static struct table references;
static uint32_t* numbers;  // of objects, by their hashes
static bool stopped = true;

static uint64_t events;
static bool last_is_deaths;  // the last event is a moment of deaths
static bool marking;
static uint64_t objects;
static uint64_t most_objects;
static bool has_too_many_objects;
static uint64_t allocated_bytes;
static uint64_t due_bytes;
static uint64_t live_objects;
static uint64_t live_words;
static uint64_t most_reachable_bytes;
static uint64_t before_mark_objects;
static uint64_t before_mark_words;
static uint32_t threads;
static uint64_t* known_threads;  // a bit of each number
static size_t thread_words;

static uint64_t first_objects;
static uint64_t first_bytes;
static uint64_t late_objects;
static uint64_t stores;
static uint64_t lost_stores;
static uint64_t unseen_copies;
static uint64_t rewritten_classes;
static uint64_t unchanged_classes;
static uint64_t checked_stacks;
static uint64_t wrong_stacks;
static uint64_t end_references;

// Of which an object takes four bytes.
static bool map_numbers(void) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* map = mmap(NULL, HASHES * sizeof *numbers, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (map == MAP_FAILED) return false;
  numbers = map;
  return true;
}

// More objects than numbers: two of them would be taken for one. A test wants fewer.
static void limit_objects(bool has_names) {
  most_objects = has_names ? OF_TWO - 1 : (UINT64_C(1) << NUMBER_BITS) - 1;
  const char* fewer = getenv("TARE_JVM_TRACE_OBJECTS");
  const uint64_t wanted = fewer == NULL ? 0 : strtoull(fewer, NULL, 10);
  if (wanted != 0 && wanted < most_objects) most_objects = wanted;
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
  else if (has_too_many_objects)
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
  limit_objects(wants_pointers);
  stopped = false;
  return write_facts("running", (struct found){0});
}

static uint64_t number_of(int64_t tag) {
  return (uint64_t)tag & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

static int64_t tag_of(uint64_t number, uint64_t size) {
  const uint64_t most = (UINT64_C(1) << SIZE_BITS) - 1;
  const uint64_t words = size / WORD_BYTES;
  return (int64_t)(number | (words < most ? words : most) << NUMBER_BITS);
}

static int64_t add_birth(struct birth birth) {
  enum { OPERATION_NEW = 4 };
  if (objects == most_objects) {
    has_too_many_objects = true;
    stopped = true;
    return 0;
  }
  ++events;
  last_is_deaths = false;
  ++objects;
  allocated_bytes += birth.size;
  const int64_t tag = tag_of(objects, birth.size);
  ++live_objects;
  live_words += (uint64_t)tag >> NUMBER_BITS;
  table_add(&births, (uint64_t[]){events, allocated_bytes, birth.size, 0, 0, OPERATION_NEW,
                                  birth.thread, birth.site, 0});
  return tag;
}

int64_t recording_birth(struct birth birth) {
  pthread_mutex_lock(&lock);
  const int64_t tag = stopped ? 0 : add_birth(birth);
  pthread_mutex_unlock(&lock);
  return tag;
}

int64_t recording_late_birth(uint64_t size) {
  pthread_mutex_lock(&lock);
  int64_t tag = 0;
  if (!stopped) {
    ++late_objects;
    tag = add_birth((struct birth){size, NO_SITE, JVM_THREAD});
  }
  pthread_mutex_unlock(&lock);
  return tag;
}

int64_t recording_first_birth(uint64_t size) {
  pthread_mutex_lock(&lock);
  int64_t tag = 0;
  if (!stopped) {
    ++first_objects;
    first_bytes += size;
    tag = add_birth((struct birth){size, NO_SITE, JVM_THREAD});
  }
  pthread_mutex_unlock(&lock);
  return tag;
}

// Deaths are told from births and stores of the same moment by coming after them.
static void tick_for_deaths(void) {
  if (!last_is_deaths) ++events;
  last_is_deaths = true;
}

void recording_death(int64_t tag) {
  pthread_mutex_lock(&lock);
  if (!stopped) {
    tick_for_deaths();
    --live_objects;
    live_words -= (uint64_t)tag >> NUMBER_BITS;
    table_add(&deaths, (uint64_t[]){number_of(tag), events, allocated_bytes, 0});
  }
  pthread_mutex_unlock(&lock);
}

void recording_mark_begin(void) {
  pthread_mutex_lock(&lock);
  before_mark_objects = live_objects;
  before_mark_words = live_words;
  marking = true;
  pthread_mutex_unlock(&lock);
}

void recording_mark_end(void) {
  pthread_mutex_lock(&lock);
  if (marking && !stopped) {
    tick_for_deaths();
    const uint64_t bytes = live_words * WORD_BYTES;
    if (bytes > most_reachable_bytes) most_reachable_bytes = bytes;
    table_add(&marks, (uint64_t[]){events, allocated_bytes, before_mark_objects,
                                   before_mark_words * WORD_BYTES, live_objects, bytes});
  }
  marking = false;
  pthread_mutex_unlock(&lock);
}

bool recording_is_due(uint64_t period) {
  pthread_mutex_lock(&lock);
  const bool due = !stopped && allocated_bytes >= due_bytes;
  if (due) due_bytes = allocated_bytes + period;
  pthread_mutex_unlock(&lock);
  return due;
}

void recording_thread(uint32_t number) {
  enum { WORD_BITS = 64, FIRST_WORDS = 1024 };
  const size_t word = number / WORD_BITS;
  const uint64_t bit = UINT64_C(1) << number % WORD_BITS;
  pthread_mutex_lock(&lock);
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
  pthread_mutex_unlock(&lock);
}

// The JVM counts hashes without a lock, so a thread of its own can draw one that is drawn here:
// what is stored in either object, or points to it, is lost rather than taken for the other's.
void recording_name(uint32_t hash, int64_t tag) {
  pthread_mutex_lock(&lock);
  if (hash < HASHES && numbers != NULL) {
    const uint32_t number = (uint32_t)number_of(tag), named = numbers[hash];
    numbers[hash] = named == 0 || named == number ? number : OF_TWO;
  }
  pthread_mutex_unlock(&lock);
}

// 0: of no object, or of none that is known.
static uint64_t number_of_hash(uint32_t hash) {
  if (hash == 0 || hash >= HASHES || numbers == NULL) return 0;
  return numbers[hash] == OF_TWO ? 0 : numbers[hash];
}

bool recording_store(uint32_t source, uint64_t offset, uint32_t target) {
  pthread_mutex_lock(&lock);
  const uint64_t from = number_of_hash(source), to = number_of_hash(target);
  const bool known = (source == 0 || from != 0) && (target == 0 || to != 0);
  if (known && !stopped) {
    ++events;
    last_is_deaths = false;
    ++stores;
    table_add(&pointers, (uint64_t[]){events, from, offset, to});
  }
  pthread_mutex_unlock(&lock);
  return known || stopped;
}

static void count(uint64_t* what) {
  pthread_mutex_lock(&lock);
  if (!stopped) ++*what;
  pthread_mutex_unlock(&lock);
}

void recording_lost_store(void) { count(&lost_stores); }

void recording_unseen_copy(void) { count(&unseen_copies); }

void recording_class(bool rewritten) { count(rewritten ? &rewritten_classes : &unchanged_classes); }

void recording_checked_stack(bool was_right) {
  count(&checked_stacks);
  if (!was_right) count(&wrong_stacks);
}

void recording_reference(int64_t source, int64_t target) {
  pthread_mutex_lock(&lock);
  ++end_references;
  table_add(&references, (uint64_t[]){number_of(source), number_of(target)});
  pthread_mutex_unlock(&lock);
}

void recording_stop(void) {
  pthread_mutex_lock(&lock);
  stopped = true;
  pthread_mutex_unlock(&lock);
}

void recording_end(struct found found) {
  pthread_mutex_lock(&lock);
  struct table* const tables[] = {&births, &deaths, &pointers, &marks, &references};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) table_flush(tables[i]);
  write_facts("exit", found);
  pthread_mutex_unlock(&lock);
}
