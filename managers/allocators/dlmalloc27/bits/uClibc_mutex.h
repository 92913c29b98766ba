/* What uClibc's copy of Lea's malloc takes from the rest of uClibc, for glibc. */

#pragma once

#include <heap_lock.h>

#define attribute_hidden
#define weak_alias(name, alias)
#define libc_hidden_def(name)
#define __set_errno(value) (errno = (value))

#define __UCLIBC_MUTEX_EXTERN(lock) extern pthread_mutex_t lock
#define __UCLIBC_MUTEX_INIT(lock, value) extern pthread_mutex_t lock
#define __UCLIBC_MUTEX_LOCK(lock) lock_heap()
#define __UCLIBC_MUTEX_UNLOCK(lock) unlock_heap()
