// EXPORT, for the functions that an object shows to others; all else in it is hidden. One that
// comes into a running process shows none: it patches who calls them.

#pragma once

#define SHOWN extern "C" __attribute__((visibility("default")))
#ifdef TARE_ATTACHED
#define EXPORT extern "C" __attribute__((visibility("hidden")))
#else
#define EXPORT SHOWN
#endif
