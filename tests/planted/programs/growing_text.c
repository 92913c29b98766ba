// Renders a report into a text that grows by fixed steps: each step copies all of it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 24000, LINE = 64, STEP = 8 << 10 };

struct text {
  char* start;
  size_t length, capacity;
};

static inline void append(struct text* text, const char* what, size_t length) {
  if (text->length + length > text->capacity) {
    char* larger = malloc(text->capacity + STEP);  // planted: reserve
    if (text->length != 0) memcpy(larger, text->start, text->length);
    free(text->start);
    text->start = larger;
    text->capacity += STEP;
  }
  memcpy(text->start + text->length, what, length);
  text->length += length;
}

static void render(struct text* text) {
  char line[LINE + 1];
  for (unsigned i = 0; i < LINES; ++i) {
    snprintf(line, sizeof line, "%06u %-56s\n", i, "what was measured in this hour");
    append(text, line, LINE);
  }
}

int main(void) {
  struct text text = {NULL, 0, 0};
#ifdef FIXED
  text.start = malloc((size_t)LINES * LINE);
  text.capacity = (size_t)LINES * LINE;
#endif
  render(&text);
  uint64_t sum = 0;
  for (size_t i = 0; i < text.length; ++i) sum = sum * 31 + (unsigned char)text.start[i];
  printf("%llu\n", (unsigned long long)sum);
  free(text.start);
}
