// Lines are read and freed, and what lies between them keeps their slabs. With two names of files,
// and jemalloc, it writes its statistics and a heap profile in the end.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

extern "C" {
[[gnu::weak]] void malloc_stats_print(void (*)(void*, const char*), void*, const char*);
[[gnu::weak]] int mallctl(const char*, void*, size_t*, void*, size_t);
}

[[gnu::noinline]] static char* keep_names(size_t n) {
  return static_cast<char*>(memset(malloc(n), 1, n));
}
[[gnu::noinline]] static char* read_lines(size_t n) {
  return static_cast<char*>(memset(malloc(n), 2, n));
}
[[gnu::noinline]] static char* index_entries(size_t n) {
  return static_cast<char*>(memset(malloc(n), 3, n));
}

static void write_text(void* file, const char* text) { fputs(text, static_cast<FILE*>(file)); }

int main(int words, char** word) {
  const int count = atoi(word[1]);
  std::vector<char*> lines;
  lines.reserve(3 * static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < 3; ++j) lines.push_back(read_lines(112));
    keep_names(112);
    if (i % 2) index_entries(320);
    if (i % 2 == 0) lines.push_back(read_lines(320));
  }
  for (char* line : lines) free(line);
  const size_t more = 200 * static_cast<size_t>(count);  // so that the peak comes after the frees
  asm volatile("" : : "r"(memset(malloc(more), 4, more)) : "memory");
  if (words < 4) return 0;
  FILE* out = fopen(word[2], "w");
  malloc_stats_print(write_text, out, "J");
  fclose(out);
  const char* profile = word[3];
  return mallctl("prof.dump", nullptr, nullptr, &profile, sizeof profile);
}
