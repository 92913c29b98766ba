/* The calls of a schedule of allocations, resizes and frees, made as plainly as C can: what the
 * replayer is held against. Prints the processor seconds of the loop. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

enum { HEADER_WORDS = 16, ALLOCATE = 1, RESIZE = 3, FREE = 4 };

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char** arguments) {
  struct stat facts;
  const int file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
  if (file < 0 || fstat(file, &facts) != 0) return 2;
  const size_t bytes = (size_t)facts.st_size;
  const uint64_t* words = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
  if (words == MAP_FAILED) return 2;
  const size_t slots = words[4];
  char** objects = mmap(NULL, slots * sizeof(char*), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (objects == MAP_FAILED) return 2;

  const double begun = seconds();
  for (const uint64_t* at = words + HEADER_WORDS; at < words + bytes / 8; ++at) {
    const uint64_t slot = *at >> 4 & 0xfffffff, size = *at >> 32;
    switch (*at & 15) {
      case ALLOCATE: {
        char* object = malloc(size);
        if (object == NULL && size > 0) return 3;
        if (size >= 8) {
          *(uint64_t*)(void*)object = slot << 1 | 1;
          for (size_t line = 64; line + 8 <= size; line += 64) {
            *(uint64_t*)(void*)(object + line) = 1;
          }
        } else if (size > 0) {
          *object = (char)(slot << 1 | 1);
        }
        objects[slot] = object;
        break;
      }
      case RESIZE:
        if ((objects[slot] = realloc(objects[slot], size == 0 ? 1 : size)) == NULL) return 3;
        break;
      case FREE:
        free(objects[slot]);
        objects[slot] = NULL;
        break;
      default:
        return 2; /* not in the schedules that this is for */
    }
  }
  printf("%.9f\n", seconds() - begun);
  return 0;
}
