#include "calculator.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { kBase = 1000000000, kDigits = 9, kMostNames = 64, kLongestName = 31, kDeepest = 100 };

struct number {
  size_t length; /* limbs, the lowest first; none for zero */
  uint32_t limbs[];
};

struct calculator {
  struct calculator_memory memory;
  const char* at;
  struct {
    char name[kLongestName + 1];
    struct number* value;
  } variables[kMostNames];
  int names;
  int depth;
  char* output;
  size_t length, room;
  const char* problem;
  jmp_buf failed;
};

static void fail(struct calculator* c, const char* problem) {
  c->problem = problem;
  longjmp(c->failed, 1);
}

static void* allocate(struct calculator* c, size_t bytes) {
  return c->memory.allocate(c->memory.place, bytes);
}
static void release(struct calculator* c, void* object) {
  c->memory.release(c->memory.place, object);
}

/* ---- numbers ---- */

static struct number* new_number(struct calculator* c, size_t length) {
  struct number* made = allocate(c, sizeof *made + length * sizeof(uint32_t));
  made->length = length;
  memset(made->limbs, 0, length * sizeof(uint32_t));
  return made;
}

static void trim(struct number* a) {
  while (a->length > 0 && a->limbs[a->length - 1] == 0) --a->length;
}

static struct number* from_small(struct calculator* c, uint32_t value) {
  struct number* made = new_number(c, 1);
  made->limbs[0] = value;
  trim(made);
  return made;
}

static struct number* copy(struct calculator* c, const struct number* a) {
  struct number* made = new_number(c, a->length);
  memcpy(made->limbs, a->limbs, a->length * sizeof(uint32_t));
  return made;
}

static int compare(const struct number* a, const struct number* b) {
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  for (size_t i = a->length; i-- > 0;)
    if (a->limbs[i] != b->limbs[i]) return a->limbs[i] < b->limbs[i] ? -1 : 1;
  return 0;
}

static struct number* add(struct calculator* c, const struct number* a, const struct number* b) {
  size_t length = a->length > b->length ? a->length : b->length;
  struct number* sum = new_number(c, length + 1);
  uint32_t carry = 0;
  for (size_t i = 0; i <= length; ++i) {
    uint32_t limb = carry + (i < a->length ? a->limbs[i] : 0) + (i < b->length ? b->limbs[i] : 0);
    carry = limb >= kBase;
    sum->limbs[i] = carry ? limb - kBase : limb;
  }
  trim(sum);
  return sum;
}

static struct number* subtract(struct calculator* c, const struct number* a,
                               const struct number* b) {
  if (compare(a, b) < 0) fail(c, "a difference below zero");
  struct number* difference = copy(c, a);
  uint32_t borrow = 0;
  for (size_t i = 0; i < a->length; ++i) {
    uint32_t less = borrow + (i < b->length ? b->limbs[i] : 0);
    borrow = difference->limbs[i] < less;
    difference->limbs[i] += (borrow ? kBase : 0) - less;
  }
  trim(difference);
  return difference;
}

static struct number* multiply(struct calculator* c, const struct number* a,
                               const struct number* b) {
  struct number* product = new_number(c, a->length + b->length);
  for (size_t i = 0; i < a->length; ++i) {
    uint64_t carry = 0;
    for (size_t j = 0; j < b->length || carry; ++j) {
      carry += product->limbs[i + j];
      if (j < b->length) carry += (uint64_t)a->limbs[i] * b->limbs[j];
      product->limbs[i + j] = (uint32_t)(carry % kBase);
      carry /= kBase;
    }
  }
  trim(product);
  return product;
}

/* rest = rest * base + limb, in the place that it has. */
static void shift_in(struct number* rest, uint32_t limb) {
  memmove(rest->limbs + 1, rest->limbs, rest->length * sizeof(uint32_t));
  rest->limbs[0] = limb;
  ++rest->length;
  trim(rest);
}

/* The largest factor of b that is not above rest; rest loses it. */
static uint32_t take_out(struct calculator* c, struct number** rest, const struct number* b) {
  uint32_t low = 0, high = kBase - 1;
  struct number* part = new_number(c, 0);
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    struct number* factor = from_small(c, middle);
    struct number* tried = multiply(c, b, factor);
    release(c, factor);
    if (compare(tried, *rest) <= 0) {
      low = middle;
      release(c, part);
      part = tried;
    } else {
      high = middle - 1;
      release(c, tried);
    }
  }
  struct number* left = subtract(c, *rest, part);
  release(c, part);
  struct number* roomy = new_number(c, b->length + 1);
  memcpy(roomy->limbs, left->limbs, left->length * sizeof(uint32_t));
  roomy->length = left->length;
  release(c, left);
  release(c, *rest);
  *rest = roomy;
  return low;
}

/* The quotient, or with `want_rest` what is left. */
static struct number* divide(struct calculator* c, const struct number* a, const struct number* b,
                             int want_rest) {
  if (b->length == 0) fail(c, "division by zero");
  struct number* quotient = new_number(c, a->length);
  if (b->length == 1) {
    uint64_t rest = 0;
    for (size_t i = a->length; i-- > 0;) {
      rest = rest * kBase + a->limbs[i];
      quotient->limbs[i] = (uint32_t)(rest / b->limbs[0]);
      rest %= b->limbs[0];
    }
    trim(quotient);
    if (!want_rest) return quotient;
    release(c, quotient);
    return from_small(c, (uint32_t)rest);
  }
  struct number* rest = new_number(c, b->length + 1);
  rest->length = 0;
  for (size_t i = a->length; i-- > 0;) {
    shift_in(rest, a->limbs[i]);
    if (compare(rest, b) >= 0) quotient->limbs[i] = take_out(c, &rest, b);
  }
  trim(quotient);
  release(c, want_rest ? quotient : rest);
  return want_rest ? rest : quotient;
}

/* ---- the language ---- */

static void skip_space(struct calculator* c) {
  while (isspace((unsigned char)*c->at)) ++c->at;
}

static int accept(struct calculator* c, const char* word) {
  skip_space(c);
  size_t length = strlen(word);
  if (strncmp(c->at, word, length) != 0) return 0;
  if (isalpha((unsigned char)word[0]) && isalnum((unsigned char)c->at[length])) return 0;
  c->at += length;
  return 1;
}

static void expect(struct calculator* c, const char* word) {
  if (!accept(c, word)) fail(c, "something else was expected");
}

static struct number** variable(struct calculator* c) {
  char name[kLongestName + 1];
  size_t length = 0;
  while (isalnum((unsigned char)*c->at)) {
    if (length == kLongestName) fail(c, "a name is too long");
    name[length++] = *c->at++;
  }
  name[length] = '\0';
  for (int i = 0; i < c->names; ++i)
    if (strcmp(c->variables[i].name, name) == 0) return &c->variables[i].value;
  if (c->names == kMostNames) fail(c, "too many names");
  memcpy(c->variables[c->names].name, name, length + 1);
  c->variables[c->names].value = new_number(c, 0);
  return &c->variables[c->names++].value;
}

static struct number* expression(struct calculator* c);

static struct number* digits(struct calculator* c) {
  const char* end = c->at;
  while (isdigit((unsigned char)*end)) ++end;
  struct number* made = new_number(c, (size_t)(end - c->at) / kDigits + 1);
  size_t limb = 0;
  for (const char* from = end; from > c->at; ++limb) {
    const char* start = from - c->at > kDigits ? from - kDigits : c->at;
    for (const char* digit = start; digit < from; ++digit)
      made->limbs[limb] = made->limbs[limb] * 10 + (uint32_t)(*digit - '0');
    from = start;
  }
  c->at = end;
  trim(made);
  return made;
}

static struct number* factor(struct calculator* c) {
  skip_space(c);
  if (isdigit((unsigned char)*c->at)) return digits(c);
  if (isalpha((unsigned char)*c->at)) return copy(c, *variable(c));
  if (++c->depth > kDeepest) fail(c, "nested too deeply");
  expect(c, "(");
  struct number* inside = expression(c);
  expect(c, ")");
  --c->depth;
  return inside;
}

/* Releases the two, and gives the third. */
static struct number* instead(struct calculator* c, struct number* a, struct number* b,
                              struct number* result) {
  release(c, a);
  release(c, b);
  return result;
}

static struct number* term(struct calculator* c) {
  struct number* a = factor(c);
  for (;;) {
    if (accept(c, "*")) {
      struct number* b = factor(c);
      a = instead(c, a, b, multiply(c, a, b));
    } else if (accept(c, "/")) {
      struct number* b = factor(c);
      a = instead(c, a, b, divide(c, a, b, 0));
    } else if (accept(c, "%")) {
      struct number* b = factor(c);
      a = instead(c, a, b, divide(c, a, b, 1));
    } else {
      return a;
    }
  }
}

static struct number* sum(struct calculator* c) {
  struct number* a = term(c);
  for (;;) {
    if (accept(c, "+")) {
      struct number* b = term(c);
      a = instead(c, a, b, add(c, a, b));
    } else if (accept(c, "-")) {
      struct number* b = term(c);
      a = instead(c, a, b, subtract(c, a, b));
    } else {
      return a;
    }
  }
}

static struct number* expression(struct calculator* c) {
  struct number* a = sum(c);
  int wanted;
  if (accept(c, "=="))
    wanted = 0;
  else if (accept(c, "<"))
    wanted = -1;
  else if (accept(c, ">"))
    wanted = 1;
  else
    return a;
  struct number* b = sum(c);
  return instead(c, a, b, from_small(c, compare(a, b) == wanted));
}

static int condition(struct calculator* c) {
  expect(c, "(");
  struct number* value = expression(c);
  expect(c, ")");
  int holds = value->length > 0;
  release(c, value);
  return holds;
}

static void print(struct calculator* c, const struct number* value) {
  size_t needed = value->length * kDigits + 3;
  if (c->length + needed > c->room) {
    c->room = 2 * (c->length + needed);
    char* larger = allocate(c, c->room);
    memcpy(larger, c->output, c->length);
    release(c, c->output);
    c->output = larger;
  }
  char* to = c->output + c->length;
  to += sprintf(to, "%u", value->length == 0 ? 0 : value->limbs[value->length - 1]);
  for (size_t i = value->length; i-- > 1;) to += sprintf(to, "%09u", value->limbs[i - 1]);
  to += sprintf(to, "\n");
  c->length = (size_t)(to - c->output);
}

static void statement(struct calculator* c, int runs);

static void block(struct calculator* c, int runs) {
  if (++c->depth > kDeepest) fail(c, "nested too deeply");
  expect(c, "{");
  while (!accept(c, "}")) statement(c, runs);
  --c->depth;
}

/* A statement that does not run is read without making numbers. */
static void skip_to(struct calculator* c, char end) {
  while (*c->at != '\0' && *c->at != end) ++c->at;
  if (*c->at != '\0') ++c->at;
}

static void loop(struct calculator* c) {
  const char* start = c->at;
  while (condition(c)) {
    block(c, 1);
    c->at = start;
  }
  block(c, 0);
}

static void statement(struct calculator* c, int runs) {
  skip_space(c);
  if (*c->at == '\0') fail(c, "the program ends too early");
  int is_loop = accept(c, "while");
  if (is_loop || accept(c, "if")) {
    if (!runs) {
      skip_to(c, ')');
      while (!accept(c, "{")) skip_to(c, ')');
      --c->at;
      block(c, 0);
    } else if (is_loop) {
      loop(c);
    } else {
      block(c, condition(c));
    }
    return;
  }
  if (!runs) return skip_to(c, ';');
  if (accept(c, "print")) {
    struct number* value = expression(c);
    print(c, value);
    release(c, value);
  } else {
    if (!isalpha((unsigned char)*c->at)) fail(c, "a statement was expected");
    struct number** place = variable(c);
    expect(c, "=");
    struct number* value = expression(c);
    release(c, *place);
    *place = value;
  }
  expect(c, ";");
}

static char* error_text(struct calculator* c) {
  char* text = allocate(c, strlen(c->problem) + sizeof "error: \n");
  sprintf(text, "error: %s\n", c->problem);
  return text;
}

char* calculate(struct calculator_memory memory, const char* program) {
  struct calculator c = {.memory = memory, .at = program};
  c.room = 64;
  c.output = allocate(&c, c.room);
  c.output[0] = '\0';
  if (setjmp(c.failed)) return error_text(&c);
  while (skip_space(&c), *c.at != '\0') statement(&c, 1);
  for (int i = 0; i < c.names; ++i) release(&c, c.variables[i].value);
  return c.output;
}
