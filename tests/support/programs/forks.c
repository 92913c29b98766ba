/* Threads replace objects and check what is in them, while the process forks every second; each
 * child checks, replaces and frees what it has inherited.
 *
 * usage: forks SECONDS
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 2, SLOTS = 5000, MOST_BYTES = 2000, MOVES_OF_A_CHILD = 200000 };

struct table {
  unsigned char* objects[SLOTS];
  size_t bytes[SLOTS];
  unsigned random;
};

static int ends;

static unsigned next(struct table* t) {
  t->random = t->random * 1664525u + 1013904223u;
  return t->random >> 8;
}

static void fail(const char* what) {
  fprintf(stderr, "forks: %s\n", what);
  _exit(1);
}

static unsigned char mark(const void* object, size_t bytes) {
  return (unsigned char)(((size_t)object >> 4) * 31 + bytes);
}

/* Through memset and a comparison with itself, because every byte counts. */
static void drop(struct table* t, unsigned slot) {
  unsigned char* const object = t->objects[slot];
  const size_t bytes = t->bytes[slot];
  if (object == NULL) return;
  if (object[0] != mark(object, bytes) || memcmp(object, object + 1, bytes - 1) != 0)
    fail("an object has lost its contents");
  free(object);
  t->objects[slot] = NULL;
}

static void replace(struct table* t) {
  const unsigned slot = next(t) % SLOTS;
  const size_t bytes = 1 + next(t) % (next(t) % 16 ? 200 : MOST_BYTES);
  drop(t, slot);
  t->objects[slot] = malloc(bytes);
  if (t->objects[slot] == NULL) fail("no memory");
  t->bytes[slot] = bytes;
  memset(t->objects[slot], mark(t->objects[slot], bytes), bytes);
}

static void* churn(void* table) {
  while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) replace(table);
  for (unsigned slot = 0; slot < SLOTS; ++slot) drop(table, slot);
  return table;
}

static void child(struct table* mine) {
  for (int i = 0; i < MOVES_OF_A_CHILD; ++i) replace(mine);
  for (unsigned slot = 0; slot < SLOTS; ++slot) drop(mine, slot);
  exit(0);
}

int main(int count, char** arguments) {
  static struct table tables[THREADS], mine;
  pthread_t threads[THREADS];
  if (count != 2) return 2;
  for (unsigned i = 0; i < THREADS; ++i) {
    tables[i].random = i;
    if (pthread_create(&threads[i], NULL, churn, &tables[i]) != 0) fail("no thread");
  }
  for (int second = 0; second < atoi(arguments[1]); ++second) {
    for (int i = 0; i < MOVES_OF_A_CHILD; ++i) replace(&mine);
    const pid_t pid = fork();
    if (pid == 0) child(&mine);
    sleep(1);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) fail("a child failed");
  }
  __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  puts("all objects had their contents");
  return 0;
}
