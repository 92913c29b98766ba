// The reap that the library is made of, and how it is hardened.

#pragma once

#ifdef TARE_REAP_SEGREGATED
#include "no_guard.hpp"
#include "segregated.hpp"
#else
#include "guard.hpp"
#include "reap.hpp"
#endif
