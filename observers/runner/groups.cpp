#include "groups.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <string_view>

#include "clock.hpp"
#include "processes.hpp"

namespace tare::runner {
namespace {

// A process that has been waited for can be in its group a moment longer.
constexpr int kMostTries = 2000;

// The number behind a label at the start of a line, or -1.
std::int64_t number_behind(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.substr(0, label.size()) == label) {
      std::int64_t number = 0;
      const char* const from = line.data() + label.size();
      const auto [end, error] = std::from_chars(from, line.data() + line.size(), number);
      if (error == std::errc{}) return number;
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return -1;
}

}  // namespace

bool enter_groups(const std::vector<std::string>& groups) {
  for (const std::string& group : groups) {
    const int fd = open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool entered = write(fd, "0", 1) == 1;
    const int error = errno;
    close(fd);
    errno = error;
    if (!entered) return false;
  }
  return true;
}

GroupMemory memory_of_groups(const std::vector<std::string>& groups) {
  GroupMemory found;
  for (const std::string& group : groups) {
    // The second names are those of the first version of control groups.
    for (const char* const file : {"/memory.events", "/memory.oom_control"})
      found.kills = std::max(found.kills, number_behind(read_small(group + file), "oom_kill "));
    for (const char* const file : {"/memory.peak", "/memory.max_usage_in_bytes"})
      found.peak_bytes = std::max(found.peak_bytes, number_behind(read_small(group + file), ""));
  }
  return found;
}

void remove_groups(const std::vector<std::string>& groups) {
  for (const std::string& group : groups) {
    for (int tries = 0; rmdir(group.c_str()) != 0 && errno == EBUSY && tries < kMostTries;
         ++tries) {
      const timespec pause{0, kMillisecond};
      nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace tare::runner
