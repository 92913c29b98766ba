// Which objects were preloaded: they are the manager's, or Tare's.

#pragma once

#include <cstddef>
#include <cstring>

namespace tare::runner {

// `list` is the value of LD_PRELOAD, `name` that of an object as the dynamic linker has it.
inline bool IsPreloaded(const char* list, const char* name) {
  const std::size_t length = strlen(name);
  for (const char* at = list; length > 0 && (at = strstr(at, name)) != nullptr; at += length)
    if ((at == list || strchr(" :", at[-1]) != nullptr) && strchr(" :", at[length]) != nullptr)
      return true;
  return false;
}

}  // namespace tare::runner
