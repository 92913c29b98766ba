/* The members of the family that uClibc's copy has wrong on 64 bits: its malloc_usable_size counts
   two bytes too many of a mapped object, and its memalign does not see that a sum overflows. */

#include <stdint.h>

#include "malloc.h"

void* lea_memalign(size_t alignment, size_t size);

void* memalign(size_t alignment, size_t size) {
  if (alignment > PTRDIFF_MAX / 2 || size > PTRDIFF_MAX - alignment) {
    errno = ENOMEM;
    return NULL;
  }
  return lea_memalign(alignment, size);
}

size_t malloc_usable_size(void* object) {
  if (object == NULL) return 0;
  const mchunkptr chunk = mem2chunk(object);
  const size_t words_before_the_next = chunk_is_mmapped(chunk) ? 2 : 1;
  return chunksize(chunk) - words_before_the_next * sizeof(size_t);
}
