/* Fills memory with objects of SIZE bytes. */
#include <stdlib.h>

#ifndef SIZE
#define SIZE 80
#endif

int main(void) {
  void** newest = NULL;
  for (int number = 0; number < 200000; number++) {
    void** object = malloc(SIZE);
    *object = newest;
    newest = object;
  }
  return newest == NULL;
}
