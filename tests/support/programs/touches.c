// Objects that are touched to known ends: prints the size of each, and how far it was touched.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile uint64_t sink;
static unsigned made;

// So that the compiler leaves it there.
static void needed(void* what) { __asm__ volatile("" : : "r"(what) : "memory"); }

static char* make(size_t end) {
  const size_t size = 5000 + 16 * made++;
  char* object = malloc(size);
  printf("%zu %zu\n", size, end);
  return object;
}

static char* grown(char* object, size_t size, size_t end) {
  printf("%zu %zu\n", size, end);
  return realloc(object, size);
}

struct record {
  uint32_t first;
  char between[100];
  uint64_t far;
  char rest[50];
  uint16_t farthest;
};

__attribute__((noinline)) static void fill(volatile struct record* record) {
  record->far = 1;
  record->first = record->first + 1;
  record->farthest = 2;
  record->between[3] = 4;
}

int main(void) {
  static char elsewhere[5000];
  make(0);
  *(volatile char*)make(1) = 1;
  *(volatile uint64_t*)(make(8 + 13) + 13) = 1;
  sink = *(volatile uint32_t*)(make(4) + 0);
  fill((struct record*)make(offsetof(struct record, farthest) + sizeof(uint16_t)));
  needed(memset(make(300), 1, 300));
  needed(memcpy(make(1100) + 100, elsewhere, 1000));
  needed(memcpy(elsewhere, make(4999), 4999));
  // Backwards: the furthest comes first.
  volatile char* backwards = make(700);
  for (int i = 699; i >= 0; --i) backwards[i] = 1;
  volatile char* twice = make(2001);
  twice[2000] = 1;
  twice[4] = 1;
  // What the kernel does for the program.
  const int file = open("/dev/zero", O_RDWR);
  if (read(file, make(1234), 1234) != 1234) abort();
  if (write(file, make(777), 700 + 77) != 777) abort();
  char* path = strcpy(make(13), "/nonexistent");
  sink = (uint64_t)open(path, O_RDONLY);
  char* unread = make(0);
  if (read(file, unread, 0) != 0) abort();
  // What a realloc keeps was touched; what it adds was not.
  char* buffer = make(200);
  needed(memset(buffer, 1, 200));
  buffer = grown(buffer, 9000, 200);
  buffer = grown(buffer, 12000, 10001);
  ((volatile char*)buffer)[10000] = 1;
  buffer = grown(buffer, 5, 5);
  // What calloc clears was not; nor does an access behind the end count.
  volatile char* cleared = calloc(1, 7000);
  printf("7000 50\n");
  cleared[49] = 1;
  volatile char* whole = malloc(8000);
  printf("8000 8000\n");
  whole[7999] = 1;
  free((char*)whole);
  return 0;
}
