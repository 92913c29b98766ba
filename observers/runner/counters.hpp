// Events of the processor that a program and its descendants have.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "request.hpp"

namespace tare::runner {

class Counters {
 public:
  // Counts from the next exec of `pid` on.
  Counters(const std::vector<Counter>& wanted, pid_t pid);

  struct Count {
    std::string name;
    std::uint64_t events;
  };
  // Of those that were counted at all.
  std::vector<Count> read() const;

 private:
  struct Open {
    std::string name;
    int fd;
  };
  std::vector<Open> open_;
};

}  // namespace tare::runner
