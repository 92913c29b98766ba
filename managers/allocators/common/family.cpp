// Members of the malloc family over memalign, for an allocator whose sources lack some of them.
// Were one missing, its caller would get memory of the C library's heap and free it to this one.
// All are weak: what the allocator's own sources define goes before.

#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace {

bool IsPowerOfTwo(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

#define WEAK __attribute__((weak))

extern "C" {

WEAK void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

WEAK int posix_memalign(void** result, size_t alignment, size_t size) {
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0) {
    return EINVAL;
  }
  const int saved = errno;
  void* object = memalign(alignment, size);
  errno = saved;
  if (object == nullptr) {
    return ENOMEM;
  }
  *result = object;
  return 0;
}

WEAK void* valloc(size_t size) { return memalign(PageSize(), size); }

WEAK void* pvalloc(size_t size) {
  const size_t page = PageSize();
  if (size > SIZE_MAX - page) {
    errno = ENOMEM;
    return nullptr;
  }
  return memalign(page, (size + page - 1) & ~(page - 1));
}

}  // extern "C"
