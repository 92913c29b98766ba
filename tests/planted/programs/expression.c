// Evaluates expressions with a value on the heap for each step.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { EVALUATIONS = 150000, DEPTH = 16 };

struct value {
  int64_t number;
  uint32_t kind, flags;
};

static const char program[] = "1 2+3*4 5+*6-7 8*+9+1-2*3+";

#ifdef FIXED
static struct value room[DEPTH];
static struct value* make_value(unsigned depth) { return &room[depth]; }
static void drop_value(struct value* value) { value->kind = 0; }
#else
static struct value* make_value(unsigned depth) {
  (void)depth;
  return malloc(sizeof(struct value));  // planted: short-lived
}
static void drop_value(struct value* value) { free(value); }
#endif

static int64_t evaluate(const char* at, int64_t variable) {
  struct value* stack[DEPTH];
  unsigned depth = 0;
  for (; *at != '\0'; ++at) {
    if (*at == ' ') continue;
    if (*at >= '0' && *at <= '9') {
      struct value* value = make_value(depth);
      value->number = (*at - '0') ^ (variable & 7);
      value->kind = 1;
      stack[depth++] = value;
      continue;
    }
    struct value *right = stack[--depth], *left = stack[depth - 1];
    if (*at == '+') left->number += right->number;
    if (*at == '-') left->number -= right->number;
    if (*at == '*') left->number = left->number * right->number % 1000003;
    drop_value(right);
  }
  const int64_t result = stack[0]->number;
  drop_value(stack[0]);
  return result;
}

int main(void) {
  int64_t sum = 0;
  for (int64_t i = 0; i < EVALUATIONS; ++i) sum = sum * 31 % 1000003 + evaluate(program, i);
  printf("%lld\n", (long long)sum);
}
