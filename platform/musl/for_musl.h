/* Included before all else by what is built for programs of musl, with the headers of a libstdc++
   that is another C library's: what those ask of it, and what Tare's own parts do. Only headers
   that need nothing of libstdc++ when they run may be used. */

#pragma once

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>

#define __GLIBC_PREREQ(major, minor) 0
#define __locale_t struct __locale_struct*
#undef mmap64 /* musl has one mmap, of either name */
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP \
  {                                            \
    {                                          \
      {                                        \
        PTHREAD_MUTEX_RECURSIVE                \
      }                                        \
    }                                          \
  }

#ifdef __cplusplus
extern "C" {
#endif
int pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_mutex_clocklock(pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_rwlock_clockrdlock(pthread_rwlock_t*, clockid_t, const struct timespec*);
int pthread_rwlock_clockwrlock(pthread_rwlock_t*, clockid_t, const struct timespec*);

/* Of glibc 2.35; platform/older has it made of the list of objects. */
struct dl_find_object {
  unsigned long long dlfo_flags;
  void* dlfo_map_start;
  void* dlfo_map_end;
  struct link_map* dlfo_link_map;
  void* dlfo_eh_frame;
  unsigned long long __dflo_reserved[7];
};
#define _dl_find_object tare_dl_find_object
int _dl_find_object(void*, struct dl_find_object*);

/* As glibc names objects: the program, which is the first, has no name. */
struct tare_each_object {
  int (*look)(struct dl_phdr_info*, size_t, void*);
  void* data;
  int is_library;
};
static inline int tare_look_at_object(struct dl_phdr_info* object, size_t size, void* data) {
  struct tare_each_object* const each = (struct tare_each_object*)data;
  struct dl_phdr_info named = *object;
  if (!each->is_library) named.dlpi_name = "";
  each->is_library = 1;
  return each->look(&named, size, each->data);
}
static inline int tare_dl_iterate_phdr(int (*look)(struct dl_phdr_info*, size_t, void*),
                                       void* data) {
  struct tare_each_object each = {look, data, 0};
  return dl_iterate_phdr(tare_look_at_object, &each);
}
#define dl_iterate_phdr tare_dl_iterate_phdr

/* musl's dynamic linker does not say by which symbol it found an address. */
enum { RTLD_DL_SYMENT = 1 };
static inline int dladdr1(const void* address, Dl_info* information, void** entry, int flags) {
  (void)flags;
  *entry = 0;
  return dladdr(address, information);
}
#ifdef __cplusplus
}
#endif
