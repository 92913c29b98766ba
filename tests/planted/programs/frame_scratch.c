// Makes the pieces of a frame and frees them all, frame by frame: glibc gives the memory back to
// the kernel each time, and gets it anew.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 300, PIECES = 250, PIECE = 4000 };

struct piece {
  struct piece* below;
  uint32_t number;
  unsigned char pixels[PIECE];
};

static struct piece* draw(uint32_t frame) {
  struct piece* top = NULL;
  for (uint32_t i = 0; i < PIECES; ++i) {
    struct piece* piece = malloc(sizeof *piece);
    piece->below = top;
    piece->number = frame * PIECES + i;
    piece->pixels[i % PIECE] = (unsigned char)frame;
    piece->pixels[PIECE - 1] = (unsigned char)i;
    top = piece;
  }
  return top;
}

static uint64_t show(struct piece* top) {
  uint64_t sum = 0;
  for (struct piece* below; top != NULL; top = below) {
    below = top->below;
    sum = sum * 31 + top->number + top->pixels[PIECE - 1];
    free(top);
  }
  return sum;
}

int main(void) {
  uint64_t sum = 0;
  for (uint32_t frame = 0; frame < FRAMES; ++frame) sum ^= show(draw(frame));
  printf("%llu\n", (unsigned long long)sum);
}
