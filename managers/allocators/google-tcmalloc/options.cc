// Google's tcmalloc lets a program set these by calls alone; here the environment says them.

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" {
void TCMalloc_Internal_SetMaxPerCpuCacheSize(std::int32_t bytes);
void TCMalloc_Internal_SetMaxTotalThreadCacheBytes(std::int64_t bytes);
void TCMalloc_Internal_SetBackgroundReleaseRate(std::size_t bytes_a_second);
void MallocExtension_Internal_ProcessBackgroundActions();
}

namespace {

// 0 where the variable is not set.
long long Bytes(const char* variable) {
  const char* const text = getenv(variable);
  return text == nullptr ? 0 : atoll(text);
}

void* ProcessForEver(void*) {
  MallocExtension_Internal_ProcessBackgroundActions();
  return nullptr;
}

__attribute__((constructor)) void SetOptions() {
  if (const auto bytes = Bytes("TARE_GOOGLE_TCMALLOC_CPU_CACHE"))
    TCMalloc_Internal_SetMaxPerCpuCacheSize(static_cast<std::int32_t>(bytes));
  if (const auto bytes = Bytes("TARE_GOOGLE_TCMALLOC_THREAD_CACHE"))
    TCMalloc_Internal_SetMaxTotalThreadCacheBytes(bytes);
  if (const auto bytes = Bytes("TARE_GOOGLE_TCMALLOC_RELEASE")) {
    TCMalloc_Internal_SetBackgroundReleaseRate(static_cast<std::size_t>(bytes));
    pthread_t thread;
    pthread_create(&thread, nullptr, ProcessForEver, nullptr);
  }
}

}  // namespace
