/* Objects of regions, and when they are used, which the program notes for itself. Between any two
 * steps an object of malloc with a size of its own marks the time: 60000, 60001, … At the end it
 * prints for each object of a region, in the order of their births, how many marks there were at
 * its first use, its last use and its end; -1 for never.
 *
 * With TALLOC or OBSTACK defined those serve, else APR's pools.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined TALLOC
#include <talloc.h>
typedef void* Region;
static void begin(void) {}
static Region create(Region parent) { return talloc_new(parent); }
static void* take(Region region, size_t bytes) { return talloc_size(region, bytes); }
static void clear(Region region) { talloc_free_children(region); }
static void destroy(Region region) { talloc_free(region); }
#elif defined OBSTACK
#include <obstack.h>
#define obstack_chunk_alloc malloc
#define obstack_chunk_free free
typedef struct obstack* Region;
static void begin(void) {}
static Region create(Region parent) {
  (void)parent;
  static struct obstack all[10];
  static int used;
  obstack_init(&all[used]);
  return &all[used++];
}
static void* take(Region region, size_t bytes) { return obstack_alloc(region, bytes); }
static void destroy(Region region) { obstack_free(region, NULL); }
static void clear(Region region) {
  destroy(region);
  obstack_init(region);
}
#else
#include <apr_general.h>
#include <apr_pools.h>
typedef apr_pool_t* Region;
static void begin(void) { apr_initialize(); }
static Region create(Region parent) {
  Region made;
  apr_pool_create(&made, parent);
  return made;
}
/* The function, whose zeros are no use of an object; the header has a macro that writes them here.
 */
#undef apr_pcalloc
void* apr_pcalloc(apr_pool_t* pool, size_t bytes);
static void* take(Region region, size_t bytes) { return apr_pcalloc(region, bytes); }
static void clear(Region region) { apr_pool_clear(region); }
static void destroy(Region region) { apr_pool_destroy(region); }
#endif

enum { FIRST_MARK = 60000, OBJECTS = 24, BYTES = 1000 };

static struct {
  volatile char* address;
  int first, last, end;
} objects[OBJECTS];
static int used, now;

static void mark(void) {
  void* volatile object = malloc(FIRST_MARK + now++);
  free(object);
}

static int born(Region region) {
  objects[used].address = take(region, BYTES);
  objects[used].first = objects[used].last = objects[used].end = -1;
  return used++;
}

static void touch(int number) {
  objects[number].address[number % 2 ? 0 : BYTES - 1] = 1;
  objects[number].last = now;
  if (objects[number].first < 0) objects[number].first = now;
}

static void ended(int first, int step) {
  for (int number = first; number < used; number += step)
    if (objects[number].end < 0) objects[number].end = now;
}

int main(void) {
  begin();
  mark();
  const Region outer = create(NULL), inner = create(outer), last = create(NULL);
  /* Even numbers in the outer region, odd ones in the inner. */
  for (int number = 0; number < OBJECTS - 4; ++number) born(number % 2 ? inner : outer);
  mark();
  for (int number = 0; number < OBJECTS - 6; ++number) {
    touch(number);
    mark();
  }
  for (int number = 0; number < 6; ++number) touch(number);
  mark();
  clear(inner);
  ended(1, 2);
  mark();
  touch(born(inner));
  mark();
  for (int number = 0; number < 6; number += 2) touch(number);
  mark();
  destroy(inner);
  ended(OBJECTS - 4, 1);
  mark();
  destroy(outer);
  ended(0, 1);
  mark();
  while (used < OBJECTS) born(last);
  mark();
  touch(OBJECTS - 1);
  mark();
  touch(OBJECTS - 1);
  touch(OBJECTS - 2);
  mark();
  for (int number = 0; number < OBJECTS; ++number)
    printf("%d %d %d\n", objects[number].first, objects[number].last, objects[number].end);
  return 0;
}
