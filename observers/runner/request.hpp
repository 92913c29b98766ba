// What tare-launch is asked for on its command line.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clock.hpp"
#include "setting.hpp"

namespace tare::runner {

struct Counter {
  std::string name;
  std::uint32_t type;
  std::uint64_t config;
};

struct Request {
  std::string input = "/dev/null";
  std::string output = "/dev/null";
  std::string errors = "/dev/null";
  std::string directory;
  Nanoseconds timeout = kNever;
  Nanoseconds sample_interval = 10 * kMillisecond;
  std::uint64_t memory_limit = UINT64_MAX;
  std::uint64_t output_limit = UINT64_MAX;
  int report_fd = 1;
  std::vector<Counter> counters;
  Setting setting;
  std::vector<std::string> groups;  // see groups.hpp
  char** command = nullptr;
};

// Ends with 2 and a message where the words are none of these.
Request parse(int argc, char** argv);

}  // namespace tare::runner
