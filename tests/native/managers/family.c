// Each check uses the malloc family as a program may, and ends the process where an answer is
// wrong.
//
// family CHECK
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                              \
  do {                                                           \
    if (!(what)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
      exit(1);                                                   \
    }                                                            \
  } while (0)

/* Keeps the compiler from removing or foreseeing what is tested. */
static _Thread_local void* volatile sink;
static void* opaque(void* p) {
  sink = p;
  return sink;
}
static size_t opaque_size(size_t n) {
  volatile size_t v = n;
  return v;
}

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void basics(void) {
  for (size_t n = 0; n < 70000; n = n < 300 ? n + 1 : n * 5 / 4) {
    unsigned char* p = opaque(malloc(n));
    CHECK(p != NULL);
    CHECK((uintptr_t)p % (n < 16 ? 8 : 16) == 0);
    CHECK(malloc_usable_size(p) >= n);
    memset(p, 0xA5, malloc_usable_size(p));
    free(p);
  }
  CHECK(malloc_usable_size(NULL) == 0);
  free(NULL);
  void* zero = opaque(malloc(0));
  void* other = opaque(malloc(0));
  CHECK(zero == NULL || zero != other);
  free(zero);
  free(other);
  char* copy = opaque(strdup("a string of the C library"));
  CHECK(strcmp(copy, "a string of the C library") == 0);
  free(copy);
}

static void zeroed(void) {
  enum { COUNT = 500 };
  unsigned char* objects[COUNT];
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < COUNT; i++) {
      size_t n = 1 + (size_t)i * 37 % 9000;
      objects[i] = opaque(calloc(n, 1));
      CHECK(objects[i] != NULL);
      for (size_t k = 0; k < n; k++) CHECK(objects[i][k] == 0);
      memset(objects[i], 0xFF, malloc_usable_size(objects[i]));
    }
    for (int i = 0; i < COUNT; i++) free(objects[i]);
  }
  for (int round = 0; round < 3; round++) {
    unsigned char* large = opaque(calloc(1, 5 << 20));
    for (size_t k = 0; k < 5 << 20; k += 1 + (k % 97)) CHECK(large[k] == 0);
    memset(large, 0xFF, 5 << 20);
    free(large);
  }
}

static void growth(void) {
  size_t n = 1;
  unsigned char* p = opaque(malloc(n));
  p[0] = 0;
  while (n < 20u << 20) {
    size_t more = n + n / 2 + 1;
    p = opaque(realloc(p, more));
    CHECK(p != NULL && malloc_usable_size(p) >= more);
    for (size_t k = 0; k < n; k += n < 5000 ? 1 : 101) CHECK(p[k] == (unsigned char)(k * 7));
    for (size_t k = 0; k < more; k++) p[k] = (unsigned char)(k * 7);
    n = more;
  }
  p = opaque(realloc(p, 100));
  for (size_t k = 0; k < 100; k++) CHECK(p[k] == (unsigned char)(k * 7));
  p = opaque(realloc(p, 3));
  for (size_t k = 0; k < 3; k++) CHECK(p[k] == (unsigned char)(k * 7));
  free(p);
  free(opaque(realloc(NULL, 50)));
  char* array = opaque(reallocarray(NULL, 10, 100));
  CHECK(array != NULL && malloc_usable_size(array) >= 1000);
  free(array);
  /* An aligned object may be one that free and realloc must find the start of. */
  unsigned char* aligned = opaque(memalign(256, 300));
  memset(aligned, 7, 300);
  aligned = opaque(realloc(aligned, 90000));
  for (int k = 0; k < 300; k++) CHECK(aligned[k] == 7);
  free(aligned);
}

static void alignment(void) {
  for (size_t a = 8; a <= 32768; a *= 2) {
    for (size_t n = 1; n < 40000; n = n * 3 + 1) {
      void* p[4] = {NULL, NULL, NULL, NULL};
      p[0] = opaque(memalign(a, n));
      p[1] = opaque(aligned_alloc(a, (n + a - 1) / a * a));
      CHECK(posix_memalign(&p[2], a, n) == 0);
      p[3] = opaque(malloc(n));
      for (int i = 0; i < 3; i++) {
        CHECK(p[i] != NULL && (uintptr_t)p[i] % a == 0);
        CHECK(malloc_usable_size(p[i]) >= n);
        memset(p[i], i, n);
      }
      for (int i = 0; i < 4; i++) free(p[i]);
    }
  }
  void* page = opaque(valloc(10));
  void* pages = opaque(pvalloc(10));
  CHECK((uintptr_t)page % 4096 == 0 && (uintptr_t)pages % 4096 == 0);
  CHECK(malloc_usable_size(pages) >= 4096);
  free(page);
  free(pages);
}

static void bad_alignment(void) {
  void* p = NULL;
  CHECK(posix_memalign(&p, 3, 10) == EINVAL);
  CHECK(posix_memalign(&p, 0, 10) == EINVAL);
}

static void resized_aligned(void) {
  const size_t sizes[] = {100, 5000, 70000, 196607, 300000, 1 << 20};
  for (size_t alignment = 32; alignment <= 1 << 16; alignment *= 2)
    for (int i = 0; i < 6; i++)
      for (int grown = 0; grown < 4; grown++) {
        const size_t size = sizes[i], other = (size_t[]){size + 50, 2 * size, size / 2, 17}[grown];
        void* object = NULL;
        if (posix_memalign(&object, alignment, size) != 0) {
          CHECK(alignment > 1 << 15);  // rpmalloc gives no larger ones
          continue;
        }
        memset(object, 7, size);
        char* const moved = realloc(object, other);
        CHECK(moved != NULL && malloc_usable_size(moved) >= other);
        for (size_t at = 0; at < size && at < other; at++) CHECK(moved[at] == 7);
        memset(moved, 9, other);
        free(moved);
      }
}

static void large(void) {
  for (size_t n = 1u << 20; n <= (size_t)1 << 30; n *= 4) {
    char* p = opaque(malloc(n));
    CHECK(p != NULL);
    p[0] = 1;
    p[n - 1] = 2;
    CHECK(p[0] == 1 && p[n - 1] == 2);
    free(p);
  }
}

static void overflow(void) {
  CHECK(opaque(calloc(opaque_size(SIZE_MAX / 2), opaque_size(4))) == NULL);
  CHECK(opaque(reallocarray(NULL, opaque_size(SIZE_MAX / 2), opaque_size(4))) == NULL);
}

static void huge(void) {
  CHECK(opaque(malloc(opaque_size(SIZE_MAX - 4096))) == NULL);
  CHECK(opaque(malloc(opaque_size((size_t)1 << 62))) == NULL);
  char* kept = opaque(malloc(10));
  strcpy(kept, "kept");
  CHECK(opaque(realloc(kept, opaque_size((size_t)1 << 62))) == NULL);
  CHECK(strcmp(kept, "kept") == 0);
  free(kept);
}

static void sets_errno(void) {
  errno = 0;
  sink = calloc(opaque_size(SIZE_MAX / 2), opaque_size(4));
  CHECK(errno == ENOMEM);
  errno = 0;
  sink = malloc(opaque_size(SIZE_MAX - 4096));
  CHECK(errno == ENOMEM);
  errno = 0;
  sink = malloc(opaque_size((size_t)1 << 62));
  CHECK(errno == ENOMEM);
}

/* Room for so much more, whatever the allocator has mapped already. */
static void limit_address_space(size_t bytes) {
  long pages = 0;
  FILE* statm = fopen("/proc/self/statm", "r");
  CHECK(statm != NULL && fscanf(statm, "%ld", &pages) == 1);
  fclose(statm);
  struct rlimit limit = {(rlim_t)pages * 4096 + bytes, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

/* Memory runs out: NULL, what is live stays as it is, and what is freed can be had again. */
static void out_of_memory(void) {
  enum { BYTES = 400000, MOST = 30000 };
  static char* objects[MOST];
  limit_address_space((size_t)96 << 20);
  int count = 0;
  while (count < MOST && (objects[count] = opaque(malloc(BYTES))) != NULL) {
    objects[count][0] = (char)count;
    objects[count][BYTES - 1] = (char)count;
    count++;
  }
  CHECK(0 < count && count < MOST);
  CHECK(opaque(calloc(opaque_size((size_t)1 << 30), opaque_size(64))) == NULL);
  CHECK(opaque(realloc(objects[0], opaque_size((size_t)1 << 36))) == NULL);
  for (int i = 0; i < count; i++)
    CHECK(objects[i][0] == (char)i && objects[i][BYTES - 1] == (char)i);
  for (int i = 0; i < count; i++) {
    free(objects[i]);
    objects[i] = NULL;
  }
  for (int i = 0; i < count / 2; i++) CHECK((objects[i] = opaque(malloc(BYTES))) != NULL);
}

/* Random sizes, each object marked with its size, freed in random order. */
static void churn(void** slots, int count, int steps, uint32_t* state) {
  for (int i = 0; i < steps; i++) {
    int k = (int)(next_random(state) % (uint32_t)count);
    if (slots[k] != NULL) {
      size_t n = *(size_t*)slots[k];
      CHECK(n == sizeof(size_t) || ((unsigned char*)slots[k])[n - 1] == (unsigned char)n);
      free(slots[k]);
      slots[k] = NULL;
    } else {
      uint32_t r = next_random(state);
      size_t n = sizeof(size_t) + (r % 64 == 0 ? r % 200000 : r % 8 == 0 ? r % 4000 : r % 200);
      unsigned char* p = malloc(n);
      CHECK(p != NULL);
      if (n > sizeof(size_t)) p[n - 1] = (unsigned char)n;
      *(size_t*)p = n;
      slots[k] = p;
    }
  }
}

enum { THREADS = 8, SLOTS = 2000 };
static void* shared[SLOTS];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread void* per_thread;
static pthread_key_t key;

static void* worker(void* argument) {
  uint32_t state = (uint32_t)(uintptr_t)argument;
  /* Reached only from thread-local storage and thread-specific data: a collector must look. */
  per_thread = malloc(100);
  strcpy(per_thread, "thread-local");
  char* specific = malloc(100);
  strcpy(specific, "thread-specific");
  pthread_setspecific(key, specific);
  specific = NULL;
  void** own = calloc(300, sizeof *own);
  for (int round = 0; round < 300; round++) {
    churn(own, 300, 200, &state);
    /* Free what other threads made, and leave them something to free. */
    for (int i = 0; i < 20; i++) {
      int k = (int)(next_random(&state) % SLOTS);
      size_t n = 8 + next_random(&state) % 3000;
      size_t* p = malloc(n);
      *p = n;
      pthread_mutex_lock(&shared_lock);
      void* old = shared[k];
      shared[k] = p;
      pthread_mutex_unlock(&shared_lock);
      if (old != NULL) {
        CHECK(*(size_t*)old <= 3008);
        memset(old, 0xEE, *(size_t*)old);
        free(old);
      }
    }
  }
  CHECK(strcmp(per_thread, "thread-local") == 0);
  CHECK(strcmp(pthread_getspecific(key), "thread-specific") == 0);
  free(per_thread);
  for (int i = 0; i < 300; i++) free(own[i]);
  free(own);
  size_t* result = malloc(64);
  *result = 4711;
  return result;
}

static void threads(void) {
  CHECK(pthread_key_create(&key, free) == 0);
  for (int round = 0; round < 3; round++) {
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
      CHECK(pthread_create(&ids[i], NULL, worker, (void*)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) {
      void* result;
      CHECK(pthread_join(ids[i], &result) == 0);
      CHECK(*(size_t*)result == 4711);
      free(result);
    }
  }
  for (int i = 0; i < SLOTS; i++) free(shared[i]);
}

static void* short_lived(void* argument) {
  (void)argument;
  char* p = malloc(1000);
  memset(p, 1, 1000);
  if (argument != NULL) {
    free(p);
    pthread_exit(malloc(32));
  }
  return p;
}

static void thread_churn(void) {
  for (int i = 0; i < 2000; i++) {
    pthread_t id;
    void* result;
    CHECK(pthread_create(&id, NULL, short_lived, i % 2 ? &id : NULL) == 0);
    CHECK(pthread_join(id, &result) == 0);
    free(result);
  }
  for (int i = 0; i < 200; i++) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, short_lived, NULL) == 0);
    CHECK(pthread_detach(id) == 0);
  }
}

static void forks(void) {
  void* slots[500] = {NULL};
  uint32_t state = 99;
  churn(slots, 500, 20000, &state);
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      churn(slots, 500, 20000, &state);
      pthread_t id;
      void* result;
      CHECK(pthread_create(&id, NULL, short_lived, NULL) == 0);
      CHECK(pthread_join(id, &result) == 0);
      free(result);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    churn(slots, 500, 2000, &state);
  }
}

static volatile int stop_churning;
static void* churner(void* argument) {
  void* slots[200] = {NULL};
  uint32_t state = (uint32_t)(uintptr_t)argument;
  while (!stop_churning) churn(slots, 200, 500, &state);
  for (int i = 0; i < 200; i++) free(slots[i]);
  return NULL;
}

/* The child of a fork must find the allocator usable although other threads were in it. */
static void busy_fork(void) {
  pthread_t ids[3];
  for (uintptr_t i = 0; i < 3; i++)
    CHECK(pthread_create(&ids[i], NULL, churner, (void*)(i + 7)) == 0);
  const char* forks = getenv("FORKS");
  for (int i = 0; i < (forks ? atoi(forks) : 40); i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(300);
      void* slots[50] = {NULL};
      uint32_t state = 5;
      churn(slots, 50, 500, &state);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  stop_churning = 1;
  for (int i = 0; i < 3; i++) CHECK(pthread_join(ids[i], NULL) == 0);
}

static void served(void) {
  const char* names[] = {
      "malloc",        "calloc",         "realloc", "free",    "memalign",
      "aligned_alloc", "posix_memalign", "valloc",  "pvalloc", "malloc_usable_size"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Dl_info info;
    void* symbol = dlsym(RTLD_DEFAULT, names[i]);
    CHECK(symbol != NULL && dladdr(symbol, &info) != 0);
    printf("%s %s\n", names[i], info.dli_fname);
  }
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) printf("map %s", line);
  fclose(maps);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } tests[] = {
      {"basics", basics},
      {"zeroed", zeroed},
      {"growth", growth},
      {"alignment", alignment},
      {"bad_alignment", bad_alignment},
      {"large", large},
      {"resized_aligned", resized_aligned},
      {"overflow", overflow},
      {"huge", huge},
      {"sets_errno", sets_errno},
      {"out_of_memory", out_of_memory},
      {"threads", threads},
      {"thread_churn", thread_churn},
      {"forks", forks},
      {"busy_fork", busy_fork},
      {"served", served},
  };
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
      tests[i].run();
      if (strcmp(argv[1], "served") != 0) puts("done");
      return 0;
    }
  }
  return 2;
}
