// The calls that set limits of the process, so that one of memory is noticed. Apart from the rest,
// because the C library declares them by types of its own: `limit` is a pair of 64-bit numbers here
// as in the kernel.

#include "limits.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include "tare/platform/exported.hpp"

namespace {

long Set(int process, int resource, const void* limit, void* before) {
  const long result = syscall(SYS_prlimit64, process, resource, limit, before);
  if (result == 0 && limit != nullptr) tare::NoticeLimits();
  return result;
}

}  // namespace

EXPORT int setrlimit(int resource, const void* limit) {
  return static_cast<int>(Set(0, resource, limit, nullptr));
}
EXPORT int setrlimit64(int resource, const void* limit) {
  return static_cast<int>(Set(0, resource, limit, nullptr));
}
EXPORT int prlimit(int process, int resource, const void* limit, void* before) {
  return static_cast<int>(Set(process, resource, limit, before));
}
EXPORT int prlimit64(int process, int resource, const void* limit, void* before) {
  return static_cast<int>(Set(process, resource, limit, before));
}
