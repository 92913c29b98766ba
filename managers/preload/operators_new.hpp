// C++'s operators new, by their names, as operators_delete.hpp has the others: each as
// DEFINE(symbol, parameters, arguments).

#pragma once

#include <cstddef>

#define TARE_EACH_OPERATOR_NEW(DEFINE)                                                         \
  DEFINE(_Znwm, (std::size_t bytes), (bytes))                                                  \
  DEFINE(_Znam, (std::size_t bytes), (bytes))                                                  \
  DEFINE(_ZnwmSt11align_val_t, (std::size_t bytes, std::size_t alignment), (bytes, alignment)) \
  DEFINE(_ZnamSt11align_val_t, (std::size_t bytes, std::size_t alignment), (bytes, alignment)) \
  DEFINE(_ZnwmRKSt9nothrow_t, (std::size_t bytes, const void* tag), (bytes, tag))              \
  DEFINE(_ZnamRKSt9nothrow_t, (std::size_t bytes, const void* tag), (bytes, tag))              \
  DEFINE(_ZnwmSt11align_val_tRKSt9nothrow_t,                                                   \
         (std::size_t bytes, std::size_t alignment, const void* tag), (bytes, alignment, tag)) \
  DEFINE(_ZnamSt11align_val_tRKSt9nothrow_t,                                                   \
         (std::size_t bytes, std::size_t alignment, const void* tag), (bytes, alignment, tag))
