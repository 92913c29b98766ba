/* A small program with two threads: parses made-up requests, keeps some, and frees the rest. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 4000, KEPT = 64 };

__attribute__((noinline)) char* parse_line(unsigned number) {
  char* line = malloc(16 + number % 240);
  sprintf(line, "request %u", number);
  return line;
}

static void* serve(void* argument) {
  char* kept[KEPT] = {NULL};
  size_t* characters = argument;
  for (unsigned number = 0; number < REQUESTS; number++) {
    char** place = &kept[number * 7919 % KEPT];
    free(*place);
    *place = parse_line(number);
    *characters += strlen(*place);
  }
  for (unsigned place = 0; place < KEPT; place++) free(kept[place]);
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  size_t characters[2] = {0, 0};
  for (int index = 0; index < 2; index++)
    pthread_create(&threads[index], NULL, serve, &characters[index]);
  for (int index = 0; index < 2; index++) pthread_join(threads[index], NULL);
  printf("%zu\n", characters[0] + characters[1]);
  return 0;
}
