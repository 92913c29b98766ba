#define _GNU_SOURCE
#include "sites.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mixed.h"
#include "table.h"

enum {
  MOST_SITES = 1 << 22,
  FIRST_PLACES = 1 << 14,
  CACHED_STACKS = 1 << 16,
  SITE_BITS = 23,
  NO_CALLER = 0,
  OF_ALL_CALLERS = UINT32_MAX,  // a frame has one line in the file of frames, whoever calls it
};

// A frame under its caller: a method and a place in it, or, without a method, a type by its hash.
struct node {
  uint32_t caller;
  uint32_t number;  // 0 where the place is free
  uint64_t method;
  uint64_t location;
};

static struct table sites;
static FILE* frames_file;
static struct node* nodes;
static size_t places;
static size_t taken;
static uint32_t site_count;
static uint32_t frame_count;
static atomic_uint_fast64_t cache[CACHED_STACKS];  // sites below the upper bits of their keys

bool sites_open(const char* stem) {
  char path[4096];
  snprintf(path, sizeof path, "%s.frames", stem);
  frames_file = fopen(path, "wxe");
  places = FIRST_PLACES;
  nodes = calloc(places, sizeof *nodes);
  return frames_file != NULL && nodes != NULL &&
         table_open(&sites, stem, "sites", "caller frame address");
}

static struct node* place_of(uint32_t caller, uint64_t method, uint64_t location) {
  size_t place = mixed(mixed(mixed(1, caller), method), location) & (places - 1);
  for (;; place = (place + 1) & (places - 1)) {
    struct node* node = &nodes[place];
    if (node->number == 0 ||
        (node->caller == caller && node->method == method && node->location == location))
      return node;
  }
}

static bool make_room(void) {
  if (2 * taken < places) return true;
  struct node* const old = nodes;
  const size_t old_places = places;
  struct node* const more = calloc(2 * places, sizeof *nodes);
  if (more == NULL) return false;
  nodes = more;
  places *= 2;
  for (size_t i = 0; i < old_places; ++i)
    if (old[i].number != 0) *place_of(old[i].caller, old[i].method, old[i].location) = old[i];
  free(old);
  return true;
}

static void take(struct node* node, uint32_t caller, uint64_t method, uint64_t location,
                 uint32_t number) {
  *node = (struct node){caller, number, method, location};
  ++taken;
}

static void write_frame(const char* function, const char* source, int line) {
  fputs("{\"function\": ", frames_file);
  write_json_text(frames_file, function);
  fputs(", \"file\": ", frames_file);
  write_json_text(frames_file, source);
  fprintf(frames_file, ", \"line\": %d}\n", line);
}

static void free_text(jvmtiEnv* tools, char* text) {
  if (text != NULL) (*tools)->Deallocate(tools, (unsigned char*)text);
}

// A type as Java writes it, of a signature like [Ljava/lang/String;
static void write_type_name(char* name, size_t room, const char* signature) {
  static const char* const primitive[] = {
      ['B'] = "byte", ['C'] = "char", ['D'] = "double", ['F'] = "float",
      ['I'] = "int",  ['J'] = "long", ['S'] = "short",  ['Z'] = "boolean",
  };
  size_t dimensions = 0;
  while (signature[dimensions] == '[') ++dimensions;
  const char* element = signature + dimensions;
  const unsigned char kind = (unsigned char)element[0];
  if (kind == 'L')
    snprintf(name, room, "%.*s", (int)strcspn(element + 1, ";"), element + 1);
  else
    snprintf(
        name, room, "%s",
        kind < sizeof primitive / sizeof *primitive && primitive[kind] ? primitive[kind] : element);
  for (char* at = name; *at != '\0'; ++at)
    if (*at == '/') *at = '.';
  for (size_t length = strlen(name); dimensions > 0 && length + 3 < room; --dimensions) {
    memcpy(name + length, "[]", 3);
    length += 2;
  }
}

static char* signature_of(jvmtiEnv* tools, jclass type) {
  char* signature = NULL;
  if ((*tools)->GetClassSignature(tools, type, &signature, NULL) != JVMTI_ERROR_NONE) return NULL;
  return signature;
}

static void describe_type(jvmtiEnv* tools, jclass type) {
  char name[1024];
  char function[1100];
  char* const signature = signature_of(tools, type);
  write_type_name(name, sizeof name, signature == NULL ? "" : signature);
  free_text(tools, signature);
  snprintf(function, sizeof function, "new %s", name);
  write_frame(function, "", 0);
}

static int line_of(jvmtiEnv* tools, jmethodID method, jlocation location) {
  jint count = 0;
  jvmtiLineNumberEntry* lines = NULL;
  if ((*tools)->GetLineNumberTable(tools, method, &count, &lines) != JVMTI_ERROR_NONE) return 0;
  int line = 0;
  jlocation nearest = -1;
  for (jint i = 0; i < count; ++i)
    if (lines[i].start_location <= location && lines[i].start_location > nearest) {
      nearest = lines[i].start_location;
      line = lines[i].line_number;
    }
  (*tools)->Deallocate(tools, (unsigned char*)lines);
  return line;
}

// The path of a source file below the root of its packages.
static void write_source_path(char* path, size_t room, const char* signature, const char* file) {
  const char* const slash = strrchr(signature, '/');
  const int package = slash == NULL ? 0 : (int)(slash - signature);
  snprintf(path, room, "%.*s%s", package, package == 0 ? "" : signature + 1, file);
}

static void describe_method(jvmtiEnv* tools, JNIEnv* java, jmethodID method, jlocation location) {
  jclass owner = NULL;
  char* name = NULL;
  char* signature = NULL;
  char* file = NULL;
  char owner_name[1024] = "";
  char function[1600];
  char source[1600] = "";
  (*tools)->GetMethodName(tools, method, &name, NULL, NULL);
  if ((*tools)->GetMethodDeclaringClass(tools, method, &owner) == JVMTI_ERROR_NONE) {
    signature = signature_of(tools, owner);
    if ((*tools)->GetSourceFileName(tools, owner, &file) != JVMTI_ERROR_NONE) file = NULL;
    (*java)->DeleteLocalRef(java, owner);
  }
  if (signature != NULL) write_type_name(owner_name, sizeof owner_name, signature);
  if (signature != NULL && file != NULL) write_source_path(source, sizeof source, signature, file);
  snprintf(function, sizeof function, "%s.%s", owner_name, name == NULL ? "" : name);
  write_frame(function, source, line_of(tools, method, location));
  free_text(tools, name);
  free_text(tools, signature);
  free_text(tools, file);
}

// The number of its line in the file of frames, from 0.
static uint32_t frame_of(jvmtiEnv* tools, JNIEnv* java, jclass type, uint64_t method,
                         uint64_t location) {
  struct node* node = place_of(OF_ALL_CALLERS, method, location);
  if (node->number == 0) {
    take(node, OF_ALL_CALLERS, method, location, ++frame_count);
    if (method == 0)
      describe_type(tools, type);
    else
      describe_method(tools, java, (jmethodID)(uintptr_t)method, (jlocation)location);
  }
  return node->number - 1;
}

static uint32_t site_under(jvmtiEnv* tools, JNIEnv* java, jclass type, uint32_t caller,
                           uint64_t method, uint64_t location) {
  const struct node* const known = place_of(caller, method, location);
  if (known->number != 0) return known->number;
  if (site_count == MOST_SITES || !make_room()) return NO_SITE;
  const uint32_t frame = frame_of(tools, java, type, method, location);
  take(place_of(caller, method, location), caller, method, location, ++site_count);
  table_add(&sites, (uint64_t[]){caller, frame, 0});
  return site_count;
}

uint32_t site_of(jvmtiEnv* tools, JNIEnv* java, jclass type, uint32_t type_hash,
                 const jvmtiFrameInfo* frames, jint count) {
  uint32_t site = NO_CALLER;
  for (jint i = count; i-- > 0;) {
    site = site_under(tools, java, type, site, (uint64_t)(uintptr_t)frames[i].method,
                      (uint64_t)frames[i].location);
    if (site == NO_SITE) return NO_SITE;
  }
  return site_under(tools, java, type, site, 0, type_hash);
}

#define SITE_MASK ((UINT64_C(1) << SITE_BITS) - 1)

uint32_t cached_site(uint64_t key) {
  const uint64_t known = atomic_load_explicit(&cache[key % CACHED_STACKS], memory_order_relaxed);
  return ((known ^ key) & ~SITE_MASK) == 0 ? (uint32_t)(known & SITE_MASK) : NO_SITE;
}

void cache_site(uint64_t key, uint32_t site) {
  atomic_store_explicit(&cache[key % CACHED_STACKS], (key & ~SITE_MASK) | site,
                        memory_order_relaxed);
}

void sites_flush(void) {
  table_flush(&sites);
  fflush(frames_file);
}

bool sites_failed(void) { return sites.failed || ferror(frames_file) != 0; }
