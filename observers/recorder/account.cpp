// libtare-account.so: has a running process's allocator write what it knows of its heap. A debugger
// has the process load it and calls tare_attach, as with libtare-attached.so; nothing is recorded.
//
// It writes FOLDER/jemalloc.json, by malloc_stats_print with the option J; or FOLDER/tcmalloc.txt,
// a line NAME VALUE for each property that gperftools documents in malloc_extension.h.

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int { kDone = 1, kUnknown = -1, kNoFile = -2 };
using Print = void (*)(void (*)(void*, const char*), void*, const char*);
using Property = int (*)(const char*, std::size_t*);
constexpr const char* kProperties[] = {
    "generic.current_allocated_bytes",   "tcmalloc.current_total_thread_cache_bytes",
    "tcmalloc.central_cache_free_bytes", "tcmalloc.transfer_cache_free_bytes",
    "tcmalloc.pageheap_free_bytes",      "tcmalloc.pageheap_unmapped_bytes",
};

struct File {
  int number;
  bool is_whole;
};

void Write(void* file, const char* text) {
  File& to = *static_cast<File*>(file);
  for (std::size_t left = strlen(text); left > 0 && to.is_whole;) {
    const ssize_t count = write(to.number, text, left);
    to.is_whole = count > 0;
    if (count <= 0) return;
    text += count;
    left -= static_cast<std::size_t>(count);
  }
}

}  // namespace

SHOWN int tare_attach(const char* folder, std::size_t, int, const char*) {
  void* const print = dlsym(RTLD_DEFAULT, "malloc_stats_print");
  void* const property = dlsym(RTLD_DEFAULT, "MallocExtension_GetNumericProperty");
  if (print == nullptr && property == nullptr) return kUnknown;
  char path[4096];
  const char* const name = print != nullptr ? "jemalloc.json" : "tcmalloc.txt";
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return kNoFile;
  File file{open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), true};
  if (file.number < 0) return kNoFile;
  if (print != nullptr) {
    reinterpret_cast<Print>(print)(Write, &file, "J");
  } else {
    for (const char* const each : kProperties) {
      std::size_t value = 0;
      char line[200];
      if (reinterpret_cast<Property>(property)(each, &value) == 0) continue;
      snprintf(line, sizeof line, "%s %zu\n", each, value);
      Write(&file, line);
    }
  }
  return close(file.number) == 0 && file.is_whole ? kDone : kNoFile;
}

// The injector asks for it, as of every library.
SHOWN int tare_detach() { return 0; }
