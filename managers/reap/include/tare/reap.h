/* Reaps: regions whose objects can also be freed one by one.
 *
 * A reap allocates by bumping a pointer, like a region, until the first object is freed on its own.
 * From then on what was freed is used again first, as in a heap, and when nothing freed is left it
 * bumps again. All that was allocated goes at once with reap_free_all or reap_destroy.
 *
 * A reap is used by one thread at a time, unless it was created with REAP_SHARED. Functions that
 * allocate return NULL with errno ENOMEM when memory is short. Memory is aligned to 16 bytes.
 */
#ifndef TARE_REAP_H
#define TARE_REAP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first version of the ABI. It fixes the two pointers below, and that four bytes before an
 * object hold the bytes asked for: that is what programs have compiled in. */
#define REAP_ABI 1

typedef struct reap {
  char* reap_position; /* where the next object goes */
  char* reap_limit;    /* equal to reap_position: every call goes to the library */
} reap_t;

enum reap_option {
  REAP_SHARED = 1,  /* any thread may allocate and free at any time */
  REAP_HARDENED = 2 /* guard words; wrong frees end the program with a message */
};

/* Bytes, unless it says otherwise. */
typedef struct reap_statistics {
  size_t reserved;  /* chunks taken from the system or the cache, of large objects too */
  size_t allocated; /* in objects that are live, with their headers */
  size_t free;      /* freed one by one, and waiting to be used again */
  size_t chunks;    /* how many */
  size_t children;  /* how many reaps were created in this one and live */
} reap_statistics_t;

/* A reap in `parent`, which is destroyed with it; NULL for a reap of its own. */
reap_t* reap_create(reap_t* parent);
/* `options` of enum reap_option, joined by |; another bit gives NULL with errno EINVAL. */
reap_t* reap_create_with(reap_t* parent, unsigned options);
/* Frees every object, and destroys the reaps created in this one. */
void reap_free_all(reap_t* reap);
void reap_destroy(reap_t* reap);

void* reap_malloc(reap_t* reap, size_t size) __attribute__((__malloc__, __alloc_size__(2)));
void* reap_calloc(reap_t* reap, size_t count, size_t size)
    __attribute__((__malloc__, __alloc_size__(2, 3)));
/* `alignment` is a power of two, else NULL with errno EINVAL. */
void* reap_aligned_alloc(reap_t* reap, size_t alignment, size_t size)
    __attribute__((__malloc__, __alloc_size__(3)));
/* As realloc: `object` may be NULL, and stays as it is when memory is short. The newest object
 * grows in place. What alignment `object` had above 16 is kept only if it does not move. */
void* reap_realloc(reap_t* reap, void* object, size_t size) __attribute__((__alloc_size__(3)));
/* `object` is of `reap`, or NULL. */
void reap_free(reap_t* reap, void* object);
/* The bytes that may be used, at least those asked for. 0 for NULL. */
size_t reap_usable_size(const void* object);

/* The reap that `pointer` lies in, NULL if none. Any pointer may be asked about. */
reap_t* reap_of(const void* pointer);
/* Whether `pointer` lies in memory of `reap` itself, and not of a reap created in it. */
int reap_owns(const reap_t* reap, const void* pointer);
void reap_get_statistics(const reap_t* reap, reap_statistics_t* statistics);

/* Chunks of destroyed reaps are kept for the next ones: 64 MiB for all threads at most, or as many
 * bytes as given here. What went unused for a second goes back to the system by and by. */
void reap_set_cache_limit(size_t bytes);
/* Gives back all that the process and this thread keep. Returns the bytes. */
size_t reap_trim(void);

/* What the inlined reap_malloc calls when it cannot bump; for nobody else. */
void* reap_malloc_slowly(reap_t* reap, size_t size);

/* reap_malloc is inlined, for as long as a pointer is bumped. The library has it too: define
 * REAP_NO_INLINE to call that always. */
#if !defined REAP_NO_INLINE && defined __GNUC__ && defined __OPTIMIZE__
extern __inline __attribute__((__gnu_inline__)) void* reap_malloc(reap_t* reap, size_t size);
extern __inline __attribute__((__gnu_inline__)) void* reap_malloc(reap_t* reap, size_t size) {
  size_t block;
  char* const object = reap->reap_position;
  if (__builtin_add_overflow(size, 19, &block)) return reap_malloc_slowly(reap, size);
  block &= ~(size_t)15;
  if (block > (size_t)(reap->reap_limit - object)) return reap_malloc_slowly(reap, size);
  reap->reap_position = object + block;
  ((unsigned*)(void*)object)[-1] = (unsigned)size;
  return object;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
