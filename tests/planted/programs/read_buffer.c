// Reads frames of a stream into a buffer for the largest that the format allows.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 60, LARGEST = 6 << 20, TABLE = 300000, CHUNK = 4096 };

struct stream {
  unsigned char* buffer;
  size_t room, frame;
};

static size_t next_length(unsigned number) { return 200000 + number * 7919 % 50000; }

static void stream_open(struct stream* stream) {
#ifdef FIXED
  stream->room = 250000;
#else
  stream->room = LARGEST;
#endif
  stream->buffer = malloc(stream->room);  // planted: untouched
}

static void read_frame(struct stream* stream, unsigned number) {
  stream->frame = next_length(number);
  if (stream->frame > stream->room) abort();
  for (size_t at = 0; at < stream->frame; at += CHUNK) {
    const size_t rest = stream->frame - at;
    memset(stream->buffer + at, (int)(number + at / CHUNK), rest < CHUNK ? rest : CHUNK);
  }
}

int main(void) {
  struct stream stream;
  stream_open(&stream);
  uint64_t* table = calloc(TABLE, sizeof *table);
  for (unsigned i = 0; i < FRAMES; ++i) {
    read_frame(&stream, i);
    for (size_t j = 0; j < stream.frame; ++j) table[(i * 7919 + j) % TABLE] += stream.buffer[j];
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < TABLE; ++i) sum = sum * 31 + table[i];
  printf("%llu\n", (unsigned long long)sum);
  free(stream.buffer);
  free(table);
}
