// Memory from the system. A source that stands below all layers.

#pragma once

#include <sys/mman.h>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

class Pages {
 public:
  void* Take(std::size_t bytes) {
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  void Give(void* memory, std::size_t bytes) { munmap(memory, bytes); }
};

}  // namespace tare::layers
