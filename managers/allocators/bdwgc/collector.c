/* The collector in one piece, with the functions that are collection kept whole: an observer tells
   collection from allocation by their entries, so none may have a copy inside another function. */

#define GC_SINGLE_OBJ_BUILD
#define GC_INNER STATIC
#define GC_EXTERN GC_INNER

#include <signal.h>

/* The collector means the system's, not the one that this object shows to programs, which leaves
   the collector's signals open. By the name in the object: the sources undefine macros. */
int pthread_sigmask(int, const sigset_t*, sigset_t*) __asm__("tare_system_sigmask");

#include <private/gc_priv.h>

#define WHOLE __attribute__((__noinline__, __noclone__))

WHOLE static GC_bool GC_try_to_collect_inner(GC_stop_func);
WHOLE static void GC_collect_a_little_inner(size_t);
WHOLE static GC_bool GC_stopped_mark(GC_stop_func);
WHOLE static void GC_finish_collection(void);
WHOLE static ptr_t GC_reclaim_generic(struct hblk*, hdr*, size_t, GC_bool, ptr_t, word*);

#include <extra/gc.c>
