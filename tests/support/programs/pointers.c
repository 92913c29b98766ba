// Builds and changes a graph of objects in every way that stores pointers, then prints it: a line
// `source offset target` for each word of a live object that points into a live object, objects by
// their sizes, which differ; and lines `0 address target` for the static roots.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400, ROOTS = 8, MANY = 2000 };
typedef struct Node {
  struct Node *left, *right, *more[3];
} Node;

static struct {
  char* start;
  size_t size;
} objects[MOST];  // holds pointers as well, which are no part of what is printed
static int used;
static size_t next_size = 400;
static void* roots[ROOTS];

#define NOINLINE __attribute__((noinline, noipa))

// The table knows an object by its complement, so that it is no root.
static char* hidden(void* p) { return (char*)~(uintptr_t)p; }

NOINLINE static void* made(size_t at_least) {
  if (next_size < at_least) next_size = at_least;
  char* p = calloc(1, next_size);
  objects[used].start = hidden(p);
  objects[used++].size = next_size;
  next_size += 8;
  return p;
}
NOINLINE static void gone(void* p) {
  for (int i = 0; i < used; ++i)
    if (objects[i].start == hidden(p)) objects[i].size = 0;
  free(p);
}
NOINLINE static void* grown(void* p, size_t size) {
  for (int i = 0; i < used; ++i)
    if (objects[i].start == hidden(p)) objects[i].size = 0;
  char* q = realloc(p, size);
  objects[used].start = hidden(q);
  objects[used++].size = size;
  return q;
}
static size_t size_at(uintptr_t address) {
  for (int i = 0; i < used; ++i)
    if (address - (uintptr_t)hidden(objects[i].start) < objects[i].size) return objects[i].size;
  return 0;
}

NOINLINE static void insert(Node** place, int key) {
  Node* node = made(sizeof(Node));
  for (; *place != NULL; key /= 2) place = key % 2 ? &(*place)->left : &(*place)->right;
  *place = node;
}
NOINLINE static Node* reversed(Node* list) {
  Node* back = NULL;
  while (list != NULL) {
    Node* next = list->left;
    list->left = back;
    back = list;
    list = next;
  }
  return back;
}
NOINLINE static void swap(Node** a, Node** b) {
  Node* kept = *a;
  *a = *b;
  *b = kept;
}
NOINLINE static void store_two(void* to, void* a, void* b) {
  _mm_storeu_si128(to, _mm_set_epi64x((intptr_t)b, (intptr_t)a));
}
__attribute__((target("avx2"), noinline)) static void store_four(void* to, void* const* from) {
  _mm256_storeu_si256(to, _mm256_loadu_si256((const void*)from));
}
NOINLINE static void copy_words(void* to, const void* from, size_t words) {
  __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
}
NOINLINE static void copy_bytes(void* to, const void* from, size_t bytes) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static void change(void) {
  Node* list = NULL;
  for (int i = 0; i < 20; ++i) {
    Node* node = made(sizeof(Node));
    node->left = list;
    list = node;
  }
  roots[0] = reversed(list);

  Node* tree = NULL;
  for (int i = 0; i < 40; ++i) insert(&tree, i * 37 % 64);
  roots[1] = tree;
  swap(&tree->left, &tree->right);
  __atomic_exchange_n(&tree->more[0], tree->left, __ATOMIC_SEQ_CST);
  Node* expected = NULL;
  __atomic_compare_exchange_n(&tree->more[1], &expected, tree->right, 0, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);
  expected = tree->right;
  __atomic_compare_exchange_n(&tree->more[1], &expected, NULL, 0, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);

  expected = NULL;  // and once in vain
  __atomic_compare_exchange_n(&tree->more[0], &expected, tree->right, 0, __ATOMIC_SEQ_CST,
                              __ATOMIC_SEQ_CST);

  Node* copy = made(sizeof(Node));  // of a structure
  memcpy(copy, tree, sizeof *copy);
  roots[2] = copy;
  roots[3] = (char*)copy + 13;  // into its midst
  copy->more[2] = (Node*)((uintptr_t)tree->left | 1);

  Node** array = made(64 * sizeof(Node*));
  for (int i = 0; i < 50; ++i) array[i] = i % 3 ? tree->left : (Node*)roots[0];
  memmove(array + 5, array, 45 * sizeof(Node*));
  memset(array + 20, 0, 10 * sizeof(Node*));
  store_two(array + 40, tree, copy);
  if (__builtin_cpu_supports("avx2")) store_four(array + 44, (void* const*)tree);
  memcpy((char*)&array[46] + 3, "\xff\xff\xff", 3);  // a part of a pointer, then no pointer
  roots[4] = array;

  Node **words = made(64 * sizeof(Node*)), **bytes = made(64 * sizeof(Node*));
  copy_words(words, array, 50);
  copy_bytes(bytes, array, 50 * sizeof(Node*));
  array[7] = (Node*)words;
  array[8] = (Node*)bytes;

  next_size += 8192;
  Node** large = made(MANY * sizeof(Node*));
  for (int i = 0; i < MANY; i += 3) large[i] = (Node*)array;
  Node** twin = made(MANY * sizeof(Node*));
  memcpy(twin, large, MANY * sizeof(Node*));
  roots[5] = large;
  large[1] = (Node*)twin;

  Node** shrinks = made(30 * sizeof(Node*));
  for (int i = 0; i < 30; ++i) shrinks[i] = (Node*)large;
  void* follows = made(100);
  shrinks = grown(shrinks, 40001 * sizeof(Node*));  // moves
  shrinks[31] = follows;
  roots[6] = shrinks;

  Node* dies = made(sizeof(Node));
  array[49] = dies;
  dies->left = tree;
  array[49] = NULL;
  gone(dies);
  Node* later = made(sizeof(Node));
  later->right = list;
  roots[7] = later;
  roots[0] = NULL;
}

int main(void) {
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  change();
  for (int i = 0; i < used; ++i)
    for (size_t at = 0; at + sizeof(void*) <= objects[i].size; at += sizeof(void*)) {
      const size_t target = size_at(*(uintptr_t*)(hidden(objects[i].start) + at));
      if (target != 0) printf("%zu %zu %zu\n", objects[i].size, at, target);
    }
  for (int i = 0; i < ROOTS; ++i)
    if (size_at((uintptr_t)roots[i]) != 0)
      printf("0 %zu %zu\n", (size_t)&roots[i], size_at((uintptr_t)roots[i]));
  return 0;
}
