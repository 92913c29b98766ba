// The C library's, and a function of glibc 2.35 for systems that may lack it (symbols/).
#pragma once

#define _dl_find_object tare_dl_find_object
#include_next <dlfcn.h>
