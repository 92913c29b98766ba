// Writes glibc's account of its arenas: half of the small objects are freed.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  static void* objects[10000];
  for (int i = 0; i < 10000; i++) objects[i] = malloc(2000);
  for (int i = 0; i < 10000; i += 2) free(objects[i]);
  malloc(1 << 20);
  return malloc_info(0, stdout);
}
