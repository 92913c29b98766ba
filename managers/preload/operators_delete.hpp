// C++'s operators delete, by their names, because their types here are those of the machine's
// calling convention: each as DEFINE(symbol, types of the arguments behind the object…).

#pragma once

#include <cstddef>

#define TARE_EACH_OPERATOR_DELETE(DEFINE)                               \
  DEFINE(_ZdlPv)                                                        \
  DEFINE(_ZdaPv)                                                        \
  DEFINE(_ZdlPvm, std::size_t)                                          \
  DEFINE(_ZdaPvm, std::size_t)                                          \
  DEFINE(_ZdlPvSt11align_val_t, std::size_t)                            \
  DEFINE(_ZdaPvSt11align_val_t, std::size_t)                            \
  DEFINE(_ZdlPvmSt11align_val_t, std::size_t, std::size_t)              \
  DEFINE(_ZdaPvmSt11align_val_t, std::size_t, std::size_t)              \
  DEFINE(_ZdlPvRKSt9nothrow_t, const void*)                             \
  DEFINE(_ZdaPvRKSt9nothrow_t, const void*)                             \
  DEFINE(_ZdlPvSt11align_val_tRKSt9nothrow_t, std::size_t, const void*) \
  DEFINE(_ZdaPvSt11align_val_tRKSt9nothrow_t, std::size_t, const void*)
