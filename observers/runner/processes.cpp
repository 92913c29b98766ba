#include "processes.hpp"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "tare/platform/elf.hpp"

namespace tare::runner {
namespace {

// Whether all that runs here does so under an emulator of this processor: then the kernel knows of
// the emulator alone, as what every process has executed.
bool is_emulated() {
  static const bool emulated = [] {
    std::array<Elf64_Half, 10> head{};
    constexpr std::size_t kMachineAt = offsetof(Elf64_Ehdr, e_machine) / sizeof(Elf64_Half);
    // An emulator answers itself for /proc/self.
    const int fd = open("/proc/thread-self/exe", O_RDONLY | O_CLOEXEC);
    const bool known = fd >= 0 && read(fd, head.data(), sizeof head) == sizeof head;
    if (fd >= 0) close(fd);
    return known && head[kMachineAt] != platform::kElfMachine;
  }();
  return emulated;
}

std::vector<pid_t> parse_pids(std::string_view text) {
  std::vector<pid_t> pids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error != std::errc{}) break;
    pids.push_back(pid);
    at = next;
    while (at < end && *at == ' ') ++at;
  }
  return pids;
}

// Children of every thread of `pid`.
void append_children(pid_t pid, std::vector<pid_t>& found) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* const directory = opendir(tasks.c_str());
  if (directory == nullptr) return;
  while (const dirent* const entry = readdir(directory)) {
    if (entry->d_name[0] == '.') continue;
    for (const pid_t child : parse_pids(read_small(tasks + "/" + entry->d_name + "/children")))
      found.push_back(child);
  }
  closedir(directory);
}

}  // namespace

std::string read_small(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  std::array<char, 4096> block{};
  while (true) {
    const ssize_t count = read(fd, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
  close(fd);
  return text;
}

std::vector<pid_t> descendants() {
  std::vector<pid_t> found;
  append_children(getpid(), found);
  for (std::size_t index = 0; index < found.size(); ++index) append_children(found[index], found);
  return found;
}

pid_t parent_of(pid_t pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/stat");
  // pid (name) state parent …; the name may hold anything, so start behind its last parenthesis.
  const auto name_end = text.rfind(')');
  pid_t parent = 0;
  if (name_end != std::string::npos && name_end + 4 < text.size())
    std::from_chars(text.data() + name_end + 4, text.data() + text.size(), parent);
  return parent;
}

std::uint64_t resident_bytes(pid_t pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/statm");
  const auto space = text.find(' ');
  if (space == std::string::npos) return 0;
  std::uint64_t pages = 0;
  std::from_chars(text.data() + space + 1, text.data() + text.size(), pages);
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t proportional_bytes(pid_t pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/smaps_rollup");
  const auto label = text.find("\nPss:");
  if (label == std::string::npos) return 0;
  const auto digits = text.find_first_of("0123456789", label);
  if (digits == std::string::npos) return 0;
  std::uint64_t kibibytes = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), kibibytes);
  return kibibytes * 1024;
}

std::string executable_of(pid_t pid) {
  if (is_emulated()) return {};
  std::array<char, 4096> path{};
  const std::string link = "/proc/" + std::to_string(pid) + "/exe";
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return {path.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

std::uint64_t image_of(pid_t pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/auxv");
  std::array<std::uint64_t, 2> entry{};
  for (std::size_t at = 0; at + sizeof(entry) <= text.size(); at += sizeof(entry)) {
    std::memcpy(entry.data(), text.data() + at, sizeof(entry));
    if (entry[0] == AT_RANDOM) return entry[1];
  }
  return 0;
}

std::string status_of(pid_t pid) { return read_small("/proc/" + std::to_string(pid) + "/status"); }

bool runs_in_memory_of_parent(pid_t pid) {
  return syscall(SYS_kcmp, pid, parent_of(pid), KCMP_VM, 0, 0) == 0;
}

ProcessorTime processor_time(const std::optional<cpu_set_t>& processors) {
  // cpu[N] user nice system idle iowait irq softirq steal …, a line each; the first is the sum.
  const std::string text = read_small("/proc/stat");
  const std::int64_t per_second = sysconf(_SC_CLK_TCK);
  std::int64_t busy = 0;
  std::int64_t stolen = 0;
  bool known = false;
  std::string_view left = text;
  while (left.substr(0, 3) == "cpu") {
    const auto line_end = std::min(left.find('\n'), left.size());
    const std::string_view line = left.substr(0, line_end);
    left.remove_prefix(std::min(line_end + 1, left.size()));
    const char* at = line.data() + 3;
    const char* const end = line.data() + line.size();
    int processor = -1;
    at = std::from_chars(at, end, processor).ptr;
    const bool wanted =
        processors ? processor >= 0 && processor < CPU_SETSIZE && CPU_ISSET(processor, &*processors)
                   : processor < 0;
    if (!wanted) continue;
    std::array<std::int64_t, 8> ticks{};
    for (std::int64_t& each : ticks) {
      while (at < end && *at == ' ') ++at;
      const auto [next, error] = std::from_chars(at, end, each);
      if (error != std::errc{}) return {};
      at = next;
    }
    const auto [user, nice, system, idle, waiting, hard, soft, steal] = ticks;
    busy += user + nice + system + hard + soft;
    stolen += steal;
    known = true;
  }
  if (!known || per_second <= 0) return {};
  return {busy * 1000 / per_second, stolen * 1000 / per_second};
}

std::int64_t kernel_oom_kills() {
  const std::string text = read_small("/proc/vmstat");
  const auto label = text.find("\noom_kill ");
  if (label == std::string::npos) return 0;
  std::int64_t kills = 0;
  std::from_chars(text.data() + label + 10, text.data() + text.size(), kills);
  return kills;
}

}  // namespace tare::runner
