/* Programs of calculator.h as a content handler of Apache. The body of a POST is the program. Its
 * numbers lie in the pool of the request, so that whatever it forgets goes with the request; where
 * there is an apr_pfree, and the query does not say `keep`, they are also freed one by one.
 *
 * The answer's headers tell what that takes: X-Allocated-Bytes, those that the program asked for;
 * X-Held-Bytes, how much larger the resident memory of the process is with the answer than it was
 * with the question, to within 64 pages, which the kernel counts late; X-Frees, whether there were
 * single frees. */

/* clang-format off: before the other headers of Apache */
#include <httpd.h>
/* clang-format on */
#include <apr_strings.h>
#include <dlfcn.h>
#include <http_config.h>
#include <http_protocol.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "calculator.h"

enum { kLongestProgram = 1 << 16 };

typedef void free_function(apr_pool_t* pool, void* object);

struct place {
  apr_pool_t* pool;
  free_function* free;
  apr_size_t allocated;
};

static void* allocate(void* place, size_t bytes) {
  struct place* in = place;
  in->allocated += bytes;
  return apr_palloc(in->pool, bytes);
}

static void release(void* place, void* object) {
  struct place* in = place;
  if (in->free != NULL) in->free(in->pool, object);
}

static long resident_bytes(void) {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file != NULL) fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

/* The body of the request; NULL where it is missing or too long. */
static char* body(request_rec* request) {
  if (ap_setup_client_block(request, REQUEST_CHUNKED_ERROR) != OK) return NULL;
  if (!ap_should_client_block(request) || request->remaining >= kLongestProgram) return NULL;
  char* text = apr_pcalloc(request->pool, kLongestProgram);
  long length = 0, more = 0;
  while ((more = ap_get_client_block(request, text + length, kLongestProgram - 1 - length)) > 0)
    length += more;
  return more < 0 ? NULL : text;
}

static int handle(request_rec* request) {
  if (request->handler == NULL || strcmp(request->handler, "calculator") != 0) return DECLINED;
  if (request->method_number != M_POST) return HTTP_METHOD_NOT_ALLOWED;
  char* program = body(request);
  if (program == NULL) return HTTP_BAD_REQUEST;
  struct place place = {.pool = request->pool};
  if (request->args == NULL || strcmp(request->args, "keep") != 0)
    *(void**)&place.free = dlsym(RTLD_DEFAULT, "apr_pfree");
  long before = resident_bytes();
  const char* answer = calculate((struct calculator_memory){allocate, release, &place}, program);
  long after = resident_bytes();
  apr_table_setn(request->headers_out, "X-Allocated-Bytes",
                 apr_psprintf(request->pool, "%" APR_SIZE_T_FMT, place.allocated));
  apr_table_setn(request->headers_out, "X-Held-Bytes",
                 apr_psprintf(request->pool, "%ld", after - before));
  apr_table_setn(request->headers_out, "X-Frees", place.free != NULL ? "yes" : "no");
  ap_set_content_type(request, "text/plain");
  ap_rputs(answer, request);
  return OK;
}

static void hooks(apr_pool_t* pool) {
  (void)pool;
  ap_hook_handler(handle, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(calculator) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks, 0};
