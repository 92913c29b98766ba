// The program and its libraries, as glibc's dynamic linker has them (2.35 and later). Nothing here
// allocates or waits for the linker's lock, but CountUnloaded.

#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::platform {

struct LoadedObject {
  std::uintptr_t start, end;
  std::uintptr_t bias;           // from addresses in the file
  const char* name;              // empty for the program
  const void* exception_frames;  // .eh_frame_hdr; nullptr where there is none
};

inline bool FindLoadedObject(std::uintptr_t address, LoadedObject& object) {
  dl_find_object found{};
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return false;
  object = {reinterpret_cast<std::uintptr_t>(found.dlfo_map_start),
            reinterpret_cast<std::uintptr_t>(found.dlfo_map_end), found.dlfo_link_map->l_addr,
            found.dlfo_link_map->l_name, found.dlfo_eh_frame};
  return true;
}

// How many there were that are not there any more.
inline std::uint64_t CountUnloaded() {
  std::uint64_t unloaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* information, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = information->dlpi_subs;
        return 1;
      },
      &unloaded);
  return unloaded;
}

// GCC's, whose operator new calls malloc and no more.
inline bool IsCxxLibrary(const char* file) { return strstr(file, "/libstdc++.so") != nullptr; }

}  // namespace tare::platform
