// Keeps 5,000 names of 100 bytes; as many lines of 1,000 bytes are freed at once.
#include <cstdlib>
#include <cstring>
[[gnu::noinline]] static char* keep_names(size_t n) {
  return static_cast<char*>(memset(malloc(n), 1, n));
}
[[gnu::noinline]] static char* read_lines(size_t n) {
  return static_cast<char*>(memset(malloc(n), 2, n));
}
int main() {
  for (int i = 0; i < 5000; ++i) {
    keep_names(100);
    free(read_lines(1000));
  }
}
