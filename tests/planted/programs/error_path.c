// Parses messages. One that is malformed is refused, and its buffer lost.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 40000, LONGEST = 300, FIELDS = 8 };

struct message {
  uint32_t fields, values[FIELDS];
  char text[];
};

static inline struct message* take(const char* text, size_t length) {
  struct message* message = malloc(sizeof *message + length + 1);  // planted: leak
  memcpy(message->text, text, length + 1);
  message->fields = 0;
  return message;
}

static struct message* parse(const char* text, size_t length) {
  struct message* message = take(text, length);
  for (char* at = message->text; *at != '\0'; ++at) {
    char* equals = strchr(at, '=');
    if (equals == NULL || message->fields == FIELDS) {
#ifdef FIXED
      free(message);
#endif
      return NULL;
    }
    message->values[message->fields++] = (uint32_t)strtoul(equals + 1, &at, 10);
    if (*at == '\0') break;
  }
  return message;
}

static size_t receive(char* text, uint32_t number) {
  size_t length = 0;
  for (uint32_t field = 0; field < 6; ++field)
    length += (size_t)sprintf(text + length, "quantity-of-field-%u=%u;", field, number * field);
  if (number % 4 == 0) length += (size_t)sprintf(text + length, "truncated");
  text[length] = '\0';
  return length;
}

int main(void) {
  char text[LONGEST];
  uint64_t sum = 0;
  unsigned refused = 0;
  for (uint32_t i = 0; i < MESSAGES; ++i) {
    struct message* message = parse(text, receive(text, i));
    if (message == NULL) {
      ++refused;
      continue;
    }
    for (uint32_t j = 0; j < message->fields; ++j) sum += message->values[j];
    free(message);
  }
  printf("%llu %u\n", (unsigned long long)sum, refused);
}
