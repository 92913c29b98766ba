// Splits mails into headers, which stay, and bodies, which go; then indexes in large blocks.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAILS = 6000, BODY = 2800, BLOCK = 48 << 10, BLOCKS = 340 };

struct header {
  uint64_t digest;
  uint32_t number, words;
  char subject[40];
};

#ifdef FIXED
static struct header* all_headers;
static unsigned headers_used;
#endif

static inline struct header* make_header(void) {
#ifdef FIXED
  return &all_headers[headers_used++];
#else
  return malloc(sizeof(struct header));  // planted: pinned
#endif
}

static struct header* read_mail(uint32_t number, char** body) {
  const size_t length = BODY + number % 7 * 40;
  char* text = *body = malloc(length);
  struct header* header = make_header();
  memset(text, 'a' + (int)(number % 26), length);
  uint64_t digest = number;
  for (size_t i = 0; i < length; i += 8) digest = digest * 31 + (unsigned char)text[i];
  *header = (struct header){.digest = digest, .number = number, .words = (uint32_t)length / 6};
  snprintf(header->subject, sizeof header->subject, "mail %u of the box", (unsigned)number);
  return header;
}

int main(void) {
  static struct header* headers[MAILS];
  static char* bodies[MAILS];
  static uint64_t* blocks[BLOCKS];
#ifdef FIXED
  all_headers = malloc(MAILS * sizeof *all_headers);
#endif
  for (uint32_t i = 0; i < MAILS; ++i) headers[i] = read_mail(i, &bodies[i]);
  for (uint32_t i = 0; i < MAILS; ++i) free(bodies[i]);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < BLOCKS; ++i) {
    blocks[i] = malloc(BLOCK);
    for (size_t j = 0; j < BLOCK / sizeof(uint64_t); ++j)
      blocks[i][j] = headers[(i * 31 + j) % MAILS]->digest + j;
  }
  for (uint32_t i = 0; i < BLOCKS; ++i) sum = sum * 31 + blocks[i][sum % 100];
  for (uint32_t i = 0; i < MAILS; ++i) sum += (unsigned char)headers[i]->subject[5];
  printf("%llu\n", (unsigned long long)sum);
}
