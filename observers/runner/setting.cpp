#include "setting.hpp"

#include <linux/mempolicy.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include "processes.hpp"

namespace tare::runner {
namespace {

#ifndef PR_THP_DISABLE_EXCEPT_ADVISED  // of Linux 6.18
constexpr unsigned long PR_THP_DISABLE_EXCEPT_ADVISED = 1UL << 1;
#endif

bool bind_processors(const cpu_set_t& wanted) {
  cpu_set_t now;
  // The kernel leaves out those that are not there.
  if (sched_setaffinity(0, sizeof(wanted), &wanted) != 0 ||
      sched_getaffinity(0, sizeof(now), &now) != 0)
    return false;
  if (CPU_EQUAL(&now, &wanted)) return true;
  errno = EINVAL;
  return false;
}

bool bind_memory(const cpu_set_t& nodes) {
  constexpr int kWordBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, kMostPlaces / kWordBits> mask{};
  for (int node = 0; node < kMostPlaces; ++node)
    if (CPU_ISSET(node, &nodes))
      mask[static_cast<std::size_t>(node / kWordBits)] |= 1UL << (node % kWordBits);
  return syscall(SYS_set_mempolicy, MPOL_BIND, mask.data(), kMostPlaces) == 0;
}

bool set_huge_pages(HugePages wanted) {
  const bool disable = wanted != HugePages::kAsTheMachineSays;
  const unsigned long flags =
      wanted == HugePages::kWhereAdvised ? PR_THP_DISABLE_EXCEPT_ADVISED : 0UL;
  if (prctl(PR_SET_THP_DISABLE, disable ? 1UL : 0UL, flags, 0UL, 0UL) != 0) return false;
  if (prctl(PR_GET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL) == static_cast<int>(wanted)) return true;
  errno = EINVAL;
  return false;
}

// The text behind a label in /proc/PID/status, to the end of its line.
std::string field_of(const std::string& status, const char* label) {
  const std::string start = std::string("\n") + label + ":\t";
  const auto found = status.find(start);
  if (found == std::string::npos) return {};
  const auto from = found + start.size();
  return status.substr(from, status.find('\n', from) - from);
}

}  // namespace

bool Setting::apply() const {
  return (!processors || bind_processors(*processors)) && (!nodes || bind_memory(*nodes)) &&
         (!huge_pages || set_huge_pages(*huge_pages));
}

std::string Setting::broken_by(pid_t pid) const {
  if (!processors && !huge_pages) return {};
  const std::string status = status_of(pid);
  const std::string allowed = field_of(status, "Cpus_allowed_list");
  if (processors && !allowed.empty()) {
    cpu_set_t now;
    cpu_set_t both;
    if (!parse_places(allowed, now)) return "runs on processors " + allowed;
    CPU_AND(&both, &now, &*processors);
    if (!CPU_EQUAL(&both, &now)) return "runs on processors " + allowed;
  }
  // A process that has ended has none; the kernel says 0 only where it gives none at all.
  const std::string enabled = field_of(status, "THP_enabled");
  if (huge_pages && !enabled.empty() && (enabled == "0") != (huge_pages == HugePages::kNone))
    return enabled == "0" ? "gets no huge pages" : "gets huge pages";
  return {};
}

bool parse_places(const std::string& text, cpu_set_t& places) {
  CPU_ZERO(&places);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int first = 0;
    auto [next, error] = std::from_chars(at, end, first);
    if (error != std::errc{}) return false;
    int last = first;
    if (next < end && *next == '-') {
      const auto [behind, wrong] = std::from_chars(next + 1, end, last);
      if (wrong != std::errc{}) return false;
      next = behind;
    }
    if (first < 0 || last < first || last >= kMostPlaces) return false;
    for (int place = first; place <= last; ++place) CPU_SET(place, &places);
    if (next == end) return true;
    if (*next != ',') return false;
    at = next + 1;
  }
}

}  // namespace tare::runner
