/* A program that uses talloc's contexts, and checks what it gets. It prints a digest, which is the
 * same whatever serves them. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <talloc.h>

static uint64_t digest = 14695981039346656037u;
static unsigned state = 1;
static int destroyed;

static unsigned below(unsigned limit) {
  state = state * 1103515245 + 12345;
  return (state >> 8) % limit;
}

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

struct node {
  struct node* next;
  char* name;
  unsigned char* data;
  size_t bytes;
};

static int count_destroyed(struct node* node) {
  digest = (digest ^ strlen(node->name)) * 1099511628211u; /* what hangs on it is still there */
  ++destroyed;
  return 0;
}

static struct node* node(void* context, int number) {
  struct node* made = talloc_zero(context, struct node);
  check(made->next == NULL && ((uintptr_t)made & 15) == 0, "zeros, aligned");
  talloc_set_destructor(made, count_destroyed);
  made->name = talloc_asprintf(made, "node %d", number);
  made->bytes = 1 + below(400);
  made->data = talloc_array(made, unsigned char, made->bytes);
  memset(made->data, number & 0xff, made->bytes);
  if (number % 3 == 0) {
    made->data = talloc_realloc(made, made->data, unsigned char, 3 * made->bytes);
    memset(made->data + made->bytes, number & 0xff, 2 * made->bytes);
    made->bytes *= 3;
  }
  if (number % 5 == 0) made->name = talloc_strdup_append(made->name, " and more");
  return made;
}

static void verify(const struct node* at, int number) {
  for (size_t i = 0; i < at->bytes; ++i) check(at->data[i] == (number & 0xff), "data as written");
  digest = (digest ^ at->bytes) * 1099511628211u;
}

int main(void) {
  void* top = talloc_new(NULL);
  void* kept = talloc_new(top);
  int stolen = 0;
  for (int round = 0; round < 300; ++round) {
    void* work = talloc_new(top);
    struct node* nodes[40];
    for (int i = 0; i < 40; ++i) nodes[i] = node(i % 4 && i > 3 ? (void*)nodes[i - 3] : work, i);
    for (int i = 0; i < 40; ++i) verify(nodes[i], i);
    if (round % 10 == 0) {
      talloc_steal(kept, nodes[36]);
      ++stolen;
    }
    char* copy = talloc_memdup(work, "copied", 7);
    check(strcmp(copy, "copied") == 0, "a copy");
    check(strcmp(talloc_strndup(work, "copied", 3), "cop") == 0, "a part");
    void* pool = talloc_pool(work, 4096);
    for (int i = 0; i < 15; ++i) memset(talloc_size(pool, 100), i, 100);
    if (round % 2) talloc_free(nodes[4]);
    check(talloc_parent(work) == top, "its parent");
    talloc_free(work);
    check(talloc_free(node(NULL, round)) == 0, "an object at the top");
  }
  check(talloc_total_blocks(kept) > (size_t)stolen, "what was moved lives on");
  talloc_free(top);
  check(destroyed == 300 * 41, "all are destroyed");
  printf("%016llx\n", (unsigned long long)digest);
  return 0;
}
