/* A program that uses all of glibc's obstacks, against a model, and checks what it gets. It prints
 * a digest, which is the same whatever serves the obstacks. */

#define _GNU_SOURCE 1
#include <obstack.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

enum { kMost = 3000 };

static uint64_t digest = 14695981039346656037u;
static unsigned state;

static unsigned below(unsigned limit) {
  state = state * 1103515245 + 12345;
  return (state >> 8) % limit;
}

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

static struct {
  unsigned char* at;
  size_t bytes;
  unsigned char fill;
} model[kMost];
static int count;

static void verify(int from) {
  for (int i = from; i < count; ++i)
    for (size_t j = 0; j < model[i].bytes; ++j)
      check(model[i].at[j] == model[i].fill, "objects are as they were written");
}

static void grown(struct obstack* stack, unsigned char fill, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    switch (i % 5) {
      case 0:
        obstack_1grow(stack, fill);
        break;
      case 1:
        obstack_blank(stack, 1);
        ((unsigned char*)obstack_next_free(stack))[-1] = fill;
        break;
      default:
        obstack_grow(stack, &fill, 1);
    }
  }
  check(obstack_object_size(stack) == bytes, "the size of the growing object");
}

static void work(unsigned seed, int alignment, int chunk) {
  struct obstack stack;
  state = seed;
  count = 0;
  obstack_specify_allocation(&stack, chunk, alignment, malloc, free);
  check(obstack_empty_p(&stack), "empty at the start");
  void* first = obstack_alloc(&stack, 1);
  for (int i = 0; i < 20000; ++i) {
    if (count < kMost && below(10) < 7) {
      unsigned char fill = (unsigned char)i;
      size_t bytes = below(60) == 0 ? below(9000) : below(70);
      if (below(3) == 0) {
        grown(&stack, fill, bytes);
        model[count].at = obstack_finish(&stack);
      } else {
        model[count].at = obstack_alloc(&stack, bytes);
        memset(model[count].at, fill, bytes);
      }
      uintptr_t mask = alignment == 0 ? 15 : (uintptr_t)alignment - 1;
      check(bytes == 0 || ((uintptr_t)model[count].at & mask) == 0, "alignment");
      model[count].bytes = bytes;
      model[count].fill = fill;
      digest = (digest ^ bytes) * 1099511628211u;
      ++count;
    } else if (count > 0) {
      int from = below(4) == 0 ? (int)below((unsigned)count) : count - 1;
      /* An object of no bytes may lie where the one before ends: that is free for both. */
      while (from > 0 && model[from].bytes == 0) --from;
      if (model[from].bytes == 0) continue;
      obstack_free(&stack, model[from].at);
      count = from;
    }
    if (i % 100 == 0) verify(0);
  }
  verify(0);
  char* text = obstack_copy0(&stack, "the end", 7);
  check(strcmp(text, "the end") == 0, "a text");
  obstack_printf(&stack, "%d and %*d", 12345, 500, 1);
  obstack_1grow(&stack, 0);
  check(strlen(obstack_finish(&stack)) == 510, "a formatted text");
  check(obstack_memory_used(&stack) > 0, "memory in use");
  obstack_free(&stack, first);
  void* again = obstack_alloc(&stack, 5000);
  memset(again, 1, 5000);
  obstack_free(&stack, NULL);
  obstack_init(&stack);
  memset(obstack_alloc(&stack, 100), 1, 100);
  obstack_free(&stack, NULL);
}

int main(void) {
  work(1, 0, 0);
  work(2, 8, 1000);
  work(3, 64, 0);
  work(4, 1, 64);
  printf("%016llx\n", (unsigned long long)digest);
  return 0;
}
