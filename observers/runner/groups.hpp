// Control groups of the kernel that a program runs in, folders of its file system: made by who
// starts the launcher, and removed by the launcher, which also lives on when that one is killed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tare::runner {

// Puts the calling process, and what it starts, into all of them. False, with errno.
bool enter_groups(const std::vector<std::string>& groups);

// How many processes the kernel killed in them because their memory was at its limit, and the most
// memory that they had; -1: not known.
struct GroupMemory {
  std::int64_t kills = -1;
  std::int64_t peak_bytes = -1;
};
GroupMemory memory_of_groups(const std::vector<std::string>& groups);

// Once no process is left in them.
void remove_groups(const std::vector<std::string>& groups);

}  // namespace tare::runner
