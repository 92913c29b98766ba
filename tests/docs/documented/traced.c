#include <mcheck.h>
#include <stdlib.h>

int main(void) {
  mtrace();
  for (size_t size = 1; size < 100; size++) {
    void* volatile object = malloc(size);
    free(object);
  }
  return 0;
}
