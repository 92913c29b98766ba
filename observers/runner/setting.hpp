// What of the machine a program may use: applied before it starts, and looked at while it runs.

#pragma once

#include <sched.h>
#include <sys/types.h>

#include <optional>
#include <string>

namespace tare::runner {

// Places up to 1,023, which is as far as the C library's sets go.
inline constexpr int kMostPlaces = CPU_SETSIZE;

// What PR_GET_THP_DISABLE says.
enum class HugePages { kAsTheMachineSays = 0, kNone = 1, kWhereAdvised = 3 };

struct Setting {
  std::optional<cpu_set_t> processors;
  std::optional<cpu_set_t> nodes;  // of memory; the set is as good for them
  std::optional<HugePages> huge_pages;

  // Of the calling process and of what it starts and becomes. False, with errno, where the kernel
  // does not take it.
  bool apply() const;

  // What of it does not hold for a process; empty where all does, or the process has gone.
  std::string broken_by(pid_t pid) const;
};

// Reads a list as the kernel writes it: 0,2-3. False for another text.
bool parse_places(const std::string& text, cpu_set_t& places);

}  // namespace tare::runner
