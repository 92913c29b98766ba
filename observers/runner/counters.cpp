#include "counters.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace tare::runner {
namespace {

int open_counter(const Counter& counter, pid_t pid) {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = counter.type;
  attributes.config = counter.config;
  attributes.disabled = 1;
  attributes.enable_on_exec = 1;
  attributes.inherit = 1;
  // User mode alone: that is what everybody may count, so the figures mean the same everywhere.
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, pid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

}  // namespace

Counters::Counters(const std::vector<Counter>& wanted, pid_t pid) {
  for (const Counter& counter : wanted)
    if (const int fd = open_counter(counter, pid); fd >= 0) open_.push_back({counter.name, fd});
}

std::vector<Counters::Count> Counters::read() const {
  std::vector<Count> counts;
  for (const auto& [name, fd] : open_) {
    std::array<std::uint64_t, 3> values{};  // count, time enabled, time running
    if (::read(fd, values.data(), sizeof(values)) != sizeof(values) || values[2] == 0) continue;
    // More events than the machine has counters take turns; the kernel says for how long.
    const double share = static_cast<double>(values[1]) / static_cast<double>(values[2]);
    counts.push_back({name, static_cast<std::uint64_t>(static_cast<double>(values[0]) * share)});
  }
  return counts;
}

}  // namespace tare::runner
