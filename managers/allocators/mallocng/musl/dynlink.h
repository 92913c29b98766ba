/* mallocng asks whether another malloc has taken the place of musl's: none has. */

#pragma once

#include <stddef.h>

#define __malloc_replaced 0
#define __aligned_alloc_replaced 0
#define weak_alias(old, new) extern __typeof(old) new __attribute__((weak, alias(#old)))

void* __libc_malloc_impl(size_t size);
void* __libc_realloc(void* object, size_t size);
void __libc_free(void* object);
