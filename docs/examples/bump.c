/* The shortest malloc that serves a real program: each thread moves a pointer of its own, and
   nothing is freed. For docs/tutorials/allocator.md. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { CHUNK = 64 << 20, HEADER = 16 };

/* By the model of other libraries a thread's variable may be made by a call of malloc. */
static _Thread_local char* next __attribute__((tls_model("initial-exec")));
static _Thread_local char* end __attribute__((tls_model("initial-exec")));

void* memalign(size_t alignment, size_t size) {
  if (alignment < HEADER) alignment = HEADER;
  if (size > PTRDIFF_MAX - alignment - 2 * CHUNK) {
    errno = ENOMEM;
    return NULL;
  }
  uintptr_t object = ((uintptr_t)next + HEADER + alignment - 1) & ~(alignment - 1);
  if (next == NULL || object + size > (uintptr_t)end) {
    size_t length = size + alignment + CHUNK;
    char* chunk = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (chunk == MAP_FAILED) {
      errno = ENOMEM;
      return NULL;
    }
    end = chunk + length;
    object = ((uintptr_t)chunk + HEADER + alignment - 1) & ~(alignment - 1);
  }
  ((size_t*)object)[-1] = size;
  next = (char*)object + size;
  return (void*)object;
}

void* malloc(size_t size) { return memalign(HEADER, size); }

void free(void* object) { (void)object; }

size_t malloc_usable_size(void* object) { return object ? ((size_t*)object)[-1] : 0; }

void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return malloc(bytes); /* fresh from the kernel, so zero */
}

void* realloc(void* object, size_t size) {
  size_t old = malloc_usable_size(object);
  if (object && size <= old) return object;
  void* larger = malloc(size);
  if (larger && object) memcpy(larger, object, old);
  return larger;
}

void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void** object, size_t alignment, size_t size) {
  void* found = memalign(alignment, size);
  if (found == NULL) return ENOMEM;
  *object = found;
  return 0;
}
