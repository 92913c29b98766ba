// EXPORT, for the functions that an object shows to others; all else in it is hidden.

#pragma once

#define EXPORT extern "C" __attribute__((visibility("default")))
