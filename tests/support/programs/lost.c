// Lists that are lost at known times. A list has NODES nodes of a size of its own. When it has been
// lost, or would have been were it not held, an object of MARKER bytes more than that is born,
// large enough for a search to follow at once; and when it has been lost later, one of a byte more.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { NODES = 40, MARKER = 50000, FILLER = 9000, FILLERS = 20, FIRST = 600 };
#define NOINLINE __attribute__((noinline, noipa))

typedef struct Node {
  struct Node* next;
} Node;

static void* volatile global;
static __thread void* volatile of_thread;
static void* volatile* mapped;
static char* volatile inside;
static Node* volatile odd;
static pthread_barrier_t barrier;

NOINLINE static Node* list(size_t size) {
  Node* head = NULL;
  for (int i = 0; i < NODES; ++i) {
    Node* node = calloc(1, size);
    node->next = head;
    head = node;
  }
  return head;
}

// What earlier calls have left in registers and on the stack would hold objects.
NOINLINE static void clear(void) {
  volatile char old[16384];
  memset((char*)old, 0, sizeof old);
  __asm__ volatile(
      "xor %%eax, %%eax; xor %%ecx, %%ecx; xor %%edx, %%edx; xor %%esi, %%esi; xor %%edi, %%edi;"
      "xor %%r8d, %%r8d; xor %%r9d, %%r9d; xor %%r10d, %%r10d; xor %%r11d, %%r11d"
      :
      :
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
}

NOINLINE static void search(size_t size) {
  void* volatile passing = malloc(MARKER + size);
  free(passing);
  for (int i = 0; i < FILLERS; ++i) {
    passing = malloc(FILLER);
    free(passing);
  }
}

NOINLINE static void lose(size_t size) {
  clear();
  search(size);
}

NOINLINE static void hold_global(size_t size) { global = list(size); }
NOINLINE static void drop_global(void) { global = NULL; }
NOINLINE static void hold_of_thread(size_t size) { of_thread = list(size); }
NOINLINE static void hold_mapped(size_t size) { *mapped = list(size); }
NOINLINE static void hold_inside(size_t size) { inside = (char*)list(size) + size - 1; }
NOINLINE static void hold_odd(size_t size) { odd = (Node*)((uintptr_t)list(size) | 1); }
NOINLINE static void hold_cycle(size_t size) {
  Node *head = list(size), *last = head;
  while (last->next != NULL) last = last->next;
  last->next = head;
  global = head;
}
NOINLINE static void hold_half(size_t size) {
  Node* node = list(size);
  for (int i = 0; i < NODES / 2; ++i) node = node->next;
  global = node;
}
NOINLINE static void hold_by_object(size_t size) {
  void** owner = calloc(1, 2 * sizeof(void*));
  owner[1] = list(size);
  global = owner;
}

NOINLINE static void in_thread_with(size_t size) {
  void* volatile held = list(size);
  pthread_barrier_wait(&barrier);  // the main thread searches
  pthread_barrier_wait(&barrier);
  held = NULL;
  (void)held;
}
static void* in_thread(void* size) {
  in_thread_with((size_t)size);
  clear();
  of_thread = list((size_t)size + 8);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return NULL;
}

int main(void) {
  size_t size = FIRST;
  mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  list(size), lose(size), size += 8;                       // 0: lost
  hold_global(size), lose(size), size += 8;                // 1: held
  drop_global(), lose(size - 8 + 1);                       // and lost
  hold_of_thread(size), lose(size), size += 8;             // 2: held
  hold_mapped(size), lose(size), size += 8;                // 3: held
  hold_inside(size), lose(size), size += 8;                // 4: held
  hold_odd(size), lose(size), size += 8;                   // 5: held
  hold_cycle(size), drop_global(), lose(size), size += 8;  // 6: lost
  hold_half(size), lose(size), size += 8;                  // 7: half lost
  hold_by_object(size), lose(size), size += 8;             // 8: held
  drop_global(), lose(size - 8 + 1);                       // and lost

  pthread_t thread;
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_create(&thread, NULL, in_thread, (void*)size);
  pthread_barrier_wait(&barrier);
  lose(size), size += 8;  // 9: held
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  lose(size - 8 + 1);     // and lost
  lose(size), size += 8;  // 10: held
  pthread_barrier_wait(&barrier);
  pthread_join(thread, NULL);
  memset((void*)&thread, 0, sizeof thread);
  lose(size - 8 + 1);  // and lost
  return 0;
}
