/* A program that uses all of APR's pools, and checks what it gets. It prints a digest of what it
 * read back, which is the same whatever serves the pools; with `free`, how many bytes it allocates
 * and frees one by one, where there is an apr_pfree. */

#include <apr_general.h>
#include <apr_pools.h>
#include <apr_strings.h>
#include <apr_tables.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t digest = 14695981039346656037u;

static void add(const void* data, size_t bytes) {
  const unsigned char* at = data;
  for (size_t i = 0; i < bytes; ++i) digest = (digest ^ at[i]) * 1099511628211u;
}

static void check(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "failed: %s\n", what);
  exit(1);
}

static apr_status_t cleanup(void* data) {
  const char* text = data; /* in the pool that goes: it must still be there */
  add(text, strlen(text));
  return APR_SUCCESS;
}

static void* objects(apr_pool_t* pool, unsigned seed, int count) {
  unsigned char* before = NULL;
  size_t before_bytes = 0;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1103515245 + 12345;
    size_t bytes = seed % 200 == 0 ? 100000 + seed % 50000 : 1 + (seed >> 8) % 300;
    unsigned char* object = i % 3 ? apr_palloc(pool, bytes) : apr_pcalloc(pool, bytes);
    check(object != NULL && (uintptr_t)object % 8 == 0, "an object, aligned");
    if (i % 3 == 0)
      for (size_t j = 0; j < bytes; ++j) check(object[j] == 0, "zeros");
    memset(object, i & 0xff, bytes);
    if (before != NULL)
      for (size_t j = 0; j < before_bytes; ++j)
        check(before[j] == ((i - 1) & 0xff), "the object before is as it was");
    before = object;
    before_bytes = bytes;
  }
  return before;
}

static void texts(apr_pool_t* pool) {
  char* all = "";
  for (int length = 0; length < 20000; length = length * 2 + 1) {
    char* text = apr_psprintf(pool, "%*d|%s|%pp", length, length, "end", (void*)0x10);
    check((int)strlen(text) >= length, "as long as was asked");
    add(text, strlen(text));
    all = apr_pstrcat(pool, all, text, NULL);
  }
  for (int length = 1010; length < 1040; ++length) {
    char* text = apr_psprintf(pool, "%*d", length, length);
    check((int)strlen(text) == length, "exactly as long");
  }
  add(all, strlen(all));
  char* copy = apr_pstrdup(pool, all);
  check(strcmp(all, copy) == 0, "a copy");
  apr_table_t* table = apr_table_make(pool, 2);
  for (int i = 0; i < 100; ++i) apr_table_setn(table, apr_itoa(pool, i), apr_itoa(pool, 2 * i));
  check(strcmp(apr_table_get(table, "77"), "154") == 0, "a table");
}

static void tree(apr_pool_t* pool, int depth) {
  apr_pool_cleanup_register(pool, apr_psprintf(pool, "depth %d", depth), cleanup,
                            apr_pool_cleanup_null);
  apr_pool_userdata_set("value", "key", NULL, pool);
  objects(pool, (unsigned)depth, 100);
  if (depth == 0) return;
  for (int child = 0; child < 3; ++child) {
    apr_pool_t* inside;
    apr_pool_create(&inside, pool);
    check(apr_pool_parent_get(inside) == pool, "its parent");
    tree(inside, depth - 1);
    if (child == 1) apr_pool_destroy(inside);
    if (child == 2) apr_pool_clear(inside);
  }
}

static apr_pool_t* shared;

static void* thread(void* number) {
  for (int i = 0; i < 100; ++i) {
    apr_pool_t* mine;
    apr_pool_create(&mine, i % 2 ? shared : NULL);
    objects(mine, (unsigned)(uintptr_t)number, 50);
    apr_pool_destroy(mine);
  }
  return NULL;
}

int main(int argc, char** argv) {
  apr_initialize();
  apr_pool_t* pool;
  apr_pool_create(&pool, NULL);
  if (argc > 1 && strcmp(argv[1], "free") == 0) {
    void (*give)(apr_pool_t*, void*);
    *(void**)&give = dlsym(RTLD_DEFAULT, "apr_pfree");
    for (int i = 0; i < 200000; ++i) {
      char* number = apr_palloc(pool, 200);
      number[0] = 1;
      if (give != NULL) give(pool, number);
    }
    printf("%d\n", give != NULL);
    return 0;
  }
  for (int i = 0; i < 6; ++i) {
    tree(pool, 3);
    texts(pool);
    void* value = NULL;
    apr_pool_userdata_get(&value, "key", pool);
    check(value != NULL, "user data");
    apr_pool_clear(pool);
    apr_pool_userdata_get(&value, "key", pool);
    check(value == NULL, "no user data after the clear");
  }
  apr_pool_t* alone;
  apr_pool_create_unmanaged_ex(&alone, NULL, NULL);
  objects(alone, 5, 100);
  apr_pool_destroy(alone);
  apr_pool_create(&shared, pool);
  pthread_t threads[4];
  for (uintptr_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, thread, (void*)i);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    tree(pool, 2);
    apr_pool_destroy(pool);
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  check(status == 0, "the fork");
  apr_pool_destroy(pool);
  printf("%016llx\n", (unsigned long long)digest);
  apr_terminate();
  return 0;
}
