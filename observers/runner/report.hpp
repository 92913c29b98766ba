// What tare-launch reports of a run, as one JSON object. Times are nanoseconds (wall) and
// microseconds (processor), sizes bytes.

#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "clock.hpp"
#include "counters.hpp"
#include "groups.hpp"
#include "processes.hpp"

namespace tare::runner {

struct Usage {
  std::int64_t user_microseconds = 0;
  std::int64_t system_microseconds = 0;
  std::int64_t minor_faults = 0;
  std::int64_t major_faults = 0;
  std::int64_t context_switches = 0;
  std::int64_t largest_process_bytes = 0;
};

struct Failure {
  const char* what = "";
  std::string subject;
  int number = 0;  // 0: none
};

struct Report {
  // One of: timeout, memory-limit, output-limit, interrupted, error; nullptr where the program
  // ended by itself, with `status`.
  const char* end = nullptr;
  int status = 0;
  pid_t pid = -1;
  Nanoseconds wall = 0;
  Usage usage;
  std::uint64_t tree_bytes = 0;
  std::int64_t samples = 0;
  std::int64_t oom_kills = 0;
  GroupMemory group;
  // Of the processors that the program could use, while it ran; -1: not known.
  ProcessorTime processors;
  // What of the setting did not hold; empty: all did, as far as was seen.
  std::string setting_broken;
  std::unordered_set<pid_t> seen;
  std::unordered_set<pid_t> left_behind;
  // Seen at samples: process, its parent, its executable, its image.
  std::set<std::tuple<pid_t, pid_t, std::string, std::uint64_t>> programs;
  std::vector<Counters::Count> counts;
  Failure failure;

  void add(const rusage& usage_of_process);
  std::string text() const;
};

}  // namespace tare::runner
