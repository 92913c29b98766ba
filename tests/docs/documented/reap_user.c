#include <tare/reap.h>

int main(void) {
  reap_t* request = reap_create(NULL);
  char* line = reap_malloc(request, 80);
  line[0] = 0;
  reap_destroy(request);
  return 0;
}
