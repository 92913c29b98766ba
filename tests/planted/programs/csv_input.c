// Reads a table of measurements, then ranks its rows. The text is held until the end.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 100000, LINE = 34, DAYS = 366 };

struct row {
  uint32_t station, value;
};

static char* read_table(void) {
  char* text = malloc((size_t)ROWS * LINE + 1);  // planted: free-earlier
  uint32_t seed = 7;
  for (size_t i = 0; i < ROWS; ++i) {
    seed = seed * 1664525 + 1013904223;
    snprintf(text + i * LINE, LINE + 1, "station-%08u,%015u\n", (unsigned)i % 9973, seed >> 8);
  }
  return text;
}

static struct row* parse(const char* text) {
  struct row* rows = malloc(ROWS * sizeof *rows);
  for (size_t i = 0; i < ROWS; ++i) {
    const char* at = text + i * LINE;
    rows[i].station = (uint32_t)strtoul(at + 8, NULL, 10);
    rows[i].value = (uint32_t)strtoul(at + 17, NULL, 10);
  }
  return rows;
}

static int by_value(const void* a, const void* b) {
  const struct row *left = *(struct row* const*)a, *right = *(struct row* const*)b;
  return (left->value > right->value) - (left->value < right->value);
}

int main(void) {
  char* text = read_table();
  struct row* rows = parse(text);
#ifdef FIXED
  free(text);
  text = NULL;
#endif
  struct row** ranked = malloc(ROWS * sizeof *ranked);
  for (size_t i = 0; i < ROWS; ++i) ranked[i] = &rows[i];
  qsort(ranked, ROWS, sizeof *ranked, by_value);
  uint64_t* sums = malloc(ROWS * sizeof *sums);
  uint64_t sum = 0;
  for (size_t i = 0; i < ROWS; ++i) sums[i] = sum += ranked[i]->value ^ ranked[i]->station;
  for (size_t i = 0; i < ROWS; i += DAYS) sum ^= sums[i];
  for (size_t i = 0; i < ROWS; ++i) sum += ranked[i]->value;
  printf("%llu\n", (unsigned long long)sum);
  free(sums);
  free(ranked);
  free(rows);
  free(text);
}
