/* The malloc family over vmalloc's region of the heap, whose method is Vmbest. Its own malloc.c
   has no lock, no check of calloc's product, and no malloc_usable_size. */

#include <errno.h>
#include <heap_lock.h>
#include <stdint.h>
#include <vmhdr.h>

/* Vmbest rounds sizes up, and memalign asks it for twice the alignment more, unchecked. */
static const size_t most_bytes = PTRDIFF_MAX / 4;

static void* or_enomem(void* object) {
  if (object == NULL) errno = ENOMEM;
  return object;
}

static void* resize(void* object, size_t size, int type) {
  if (size > most_bytes) return or_enomem(NULL);
  lock_heap();
  void* resized = vmresize(Vmheap, object, size, type);
  unlock_heap();
  return resized;
}

void* malloc(size_t size) {
  if (size > most_bytes) return or_enomem(NULL);
  lock_heap();
  void* object = vmalloc(Vmheap, size);
  unlock_heap();
  return or_enomem(object);
}

void free(void* object) {
  lock_heap();
  vmfree(Vmheap, object);
  unlock_heap();
}

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return or_enomem(NULL);
  return or_enomem(resize(NULL, bytes, VM_RSZERO));
}

void* realloc(void* object, size_t size) {
  void* resized = resize(object, size, VM_RSCOPY | VM_RSMOVE);
  const int was_freed = object != NULL && size == 0;
  return was_freed ? NULL : or_enomem(resized);
}

void* memalign(size_t alignment, size_t size) {
  if (alignment > most_bytes || size > most_bytes) return or_enomem(NULL);
  lock_heap();
  /* Vmbest aligns no object of no bytes. */
  void* object = vmalign(Vmheap, size == 0 ? 1 : size, alignment);
  unlock_heap();
  return or_enomem(object);
}

size_t malloc_usable_size(void* object) {
  if (object == NULL) return 0;
  return SIZE(BLOCK(object)) & ~BITS;
}
