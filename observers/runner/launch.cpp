// tare-launch: runs one program and reports what the kernel accounted for it and its descendants.
//
// A program started straight from Python inherits Python's peak resident size in its own
// ru_maxrss (the kernel carries the peak over at exec), so a small static process stands between
// them. It also is the subreaper of everything the program starts: nothing outlives a run.
//
// The report is one JSON object, written to the descriptor --report-fd. Times are nanoseconds
// (wall) and microseconds (processor), sizes bytes. "end" is one of: exited, signaled, timeout,
// memory-limit, output-limit, interrupted, error.

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "../json_text.h"

namespace {

using Nanoseconds = std::int64_t;

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kSecond = 1000 * kMillisecond;
constexpr Nanoseconds kNever = INT64_MAX;
// Between SIGTERM and SIGKILL, so that a program can remove its temporary files.
constexpr Nanoseconds kTermGrace = 500 * kMillisecond;
// What is still running shortly after the main process has ended was left behind on purpose.
constexpr Nanoseconds kStragglerGrace = 100 * kMillisecond;
// A sample of the tree's memory may cost at most one part in this many of the time between two.
constexpr Nanoseconds kSampleShare = 100;

struct Counter {
  std::string name;
  std::uint32_t type;
  std::uint64_t config;
  int fd = -1;
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
  char** command = nullptr;
};

struct Usage {
  std::int64_t user_microseconds = 0;
  std::int64_t system_microseconds = 0;
  std::int64_t minor_faults = 0;
  std::int64_t major_faults = 0;
  std::int64_t context_switches = 0;
  std::int64_t largest_process_bytes = 0;
};

Nanoseconds now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

[[noreturn]] void usage_error(const std::string& what) {
  std::fprintf(stderr, "tare-launch: %s\n", what.c_str());
  std::exit(2);
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    std::array<char, TARE_JSON_PIECE_BYTES> piece{};
    text.remove_prefix(tare_json_piece(text.data(), text.size(), piece.data()));
    quoted += piece.data();
  }
  return quoted + '"';
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

template <typename Number>
Number parse_number(std::string_view option, std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    usage_error(std::string(option) + " wants a number, not '" + std::string(text) + "'");
  return value;
}

Counter parse_counter(std::string_view text) {
  const auto first = text.find(':');
  const auto second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos)
    usage_error("--counter wants NAME:TYPE:CONFIG");
  return {std::string(text.substr(0, first)),
          parse_number<std::uint32_t>("--counter", text.substr(first + 1, second - first - 1)),
          parse_number<std::uint64_t>("--counter", text.substr(second + 1))};
}

Request parse(int argc, char** argv) {
  Request request;
  int index = 1;
  for (; index < argc; ++index) {
    const std::string_view option = argv[index];
    if (option == "--") break;
    if (index + 1 >= argc) usage_error(std::string(option) + " wants a value");
    const std::string_view value = argv[++index];
    if (option == "--stdin") {
      request.input = value;
    } else if (option == "--stdout") {
      request.output = value;
    } else if (option == "--stderr") {
      request.errors = value;
    } else if (option == "--directory") {
      request.directory = value;
    } else if (option == "--timeout-ms") {
      request.timeout = parse_number<Nanoseconds>(option, value) * kMillisecond;
    } else if (option == "--sample-ms") {
      request.sample_interval = parse_number<Nanoseconds>(option, value) * kMillisecond;
    } else if (option == "--memory-limit") {
      request.memory_limit = parse_number<std::uint64_t>(option, value);
    } else if (option == "--output-limit") {
      request.output_limit = parse_number<std::uint64_t>(option, value);
    } else if (option == "--report-fd") {
      request.report_fd = parse_number<int>(option, value);
    } else if (option == "--counter") {
      request.counters.push_back(parse_counter(value));
    } else {
      usage_error("unknown option " + std::string(option));
    }
  }
  if (index + 1 >= argc) usage_error("no program after --");
  request.command = argv + index + 1;
  return request;
}

/// Reads a small file of /proc; empty when the process has gone.
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

/// Children of every thread of `pid`.
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

/// Pages shared with other processes are divided among them, so that a tree's sum counts them once.
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

/// What tells this image of a program from those before it in the same process: where the kernel
/// put its random bytes, as the probe reads it from its auxiliary vector. 0: not known.
std::uint64_t image_of(pid_t pid) {
  const std::string text = read_small("/proc/" + std::to_string(pid) + "/auxv");
  std::array<std::uint64_t, 2> entry{};
  for (std::size_t at = 0; at + sizeof(entry) <= text.size(); at += sizeof(entry)) {
    std::memcpy(entry.data(), text.data() + at, sizeof(entry));
    if (entry[0] == AT_RANDOM) return entry[1];
  }
  return 0;
}

/// Between a vfork and its exec a child runs in its parent's memory, which both report as theirs.
bool runs_in_memory_of_parent(pid_t pid) {
  return syscall(SYS_kcmp, pid, parent_of(pid), KCMP_VM, 0, 0) == 0;
}

std::int64_t kernel_oom_kills() {
  const std::string text = read_small("/proc/vmstat");
  const auto label = text.find("\noom_kill ");
  if (label == std::string::npos) return 0;
  std::int64_t kills = 0;
  std::from_chars(text.data() + label + 10, text.data() + text.size(), kills);
  return kills;
}

class Launch {
 public:
  explicit Launch(Request request) : request_(std::move(request)) {}

  int run() {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) return 1;
    fcntl(request_.report_fd, F_SETFD, FD_CLOEXEC);

    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
    sigset_t inherited;
    sigprocmask(SIG_BLOCK, &watched, &inherited);
    signal_fd_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);

    if (!open_files()) return report();
    oom_kills_before_ = kernel_oom_kills();
    if (!start(inherited)) return report();
    watch();
    end_stragglers();
    read_counters();
    return report();
  }

 private:
  bool fail(const char* what, const std::string& subject, int error) {
    end_ = "error";
    error_what_ = what;
    error_subject_ = subject;
    error_number_ = error;
    return false;
  }

  bool open_files() {
    input_fd_ = open(request_.input.c_str(), O_RDONLY | O_CLOEXEC);
    if (input_fd_ < 0) return fail("input", request_.input, errno);
    constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    output_fd_ = open(request_.output.c_str(), kWrite, 0600);
    if (output_fd_ < 0) return fail("output", request_.output, errno);
    errors_fd_ = open(request_.errors.c_str(), kWrite, 0600);
    if (errors_fd_ < 0) return fail("output", request_.errors, errno);
    return true;
  }

  bool start(const sigset_t& inherited) {
    std::array<int, 2> ready{};
    std::array<int, 2> failure{};
    if (pipe2(ready.data(), O_CLOEXEC) != 0 || pipe2(failure.data(), O_CLOEXEC) != 0)
      return fail("pipe", "", errno);
    main_ = fork();
    if (main_ < 0) return fail("fork", "", errno);
    if (main_ == 0) become_program(inherited, ready, failure);
    close(ready[0]);
    close(failure[1]);
    setpgid(main_, main_);
    open_counters();
    started_ = now();
    close(ready[1]);
    std::array<int, 2> reason{};
    ssize_t count = 0;
    do {
      count = read(failure[0], reason.data(), sizeof(reason));
    } while (count < 0 && errno == EINTR);
    close(failure[0]);
    if (count == 0) return true;
    waitpid(main_, nullptr, 0);
    return reason[0] == 0 ? fail("directory", request_.directory, reason[1])
                          : fail("exec", request_.command[0], reason[1]);
  }

  [[noreturn]] void become_program(const sigset_t& inherited, const std::array<int, 2>& ready,
                                   const std::array<int, 2>& failure) const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    close(ready[1]);
    char byte = 0;
    while (read(ready[0], &byte, 1) < 0 && errno == EINTR) {
    }
    std::array<int, 2> reason{0, 0};
    if (!request_.directory.empty() && chdir(request_.directory.c_str()) != 0) {
      reason[1] = errno;
    } else {
      dup2(input_fd_, STDIN_FILENO);
      dup2(output_fd_, STDOUT_FILENO);
      dup2(errors_fd_, STDERR_FILENO);
      sigprocmask(SIG_SETMASK, &inherited, nullptr);
      execvp(request_.command[0], request_.command);
      reason = {1, errno};
    }
    write_all(failure[1], {reinterpret_cast<const char*>(reason.data()), sizeof(reason)});
    _exit(127);
  }

  void open_counters() {
    for (Counter& counter : request_.counters) {
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
      counter.fd = static_cast<int>(
          syscall(SYS_perf_event_open, &attributes, main_, -1, -1, PERF_FLAG_FD_CLOEXEC));
    }
  }

  void read_counters() {
    for (const Counter& counter : request_.counters) {
      std::array<std::uint64_t, 3> values{};  // count, time enabled, time running
      if (counter.fd < 0 || read(counter.fd, values.data(), sizeof(values)) != sizeof(values) ||
          values[2] == 0)
        continue;
      // More events than the machine has counters take turns; the kernel says for how long.
      const double share = static_cast<double>(values[1]) / static_cast<double>(values[2]);
      if (!counters_.empty()) counters_ += ',';
      counters_ +=
          json_string(counter.name) + ":" +
          std::to_string(static_cast<std::uint64_t>(static_cast<double>(values[0]) * share));
    }
  }

  void watch() {
    const Nanoseconds deadline = request_.timeout == kNever ? kNever : started_ + request_.timeout;
    Nanoseconds next_sample = started_ + request_.sample_interval;
    while (!main_ended_) {
      Nanoseconds wake = std::min(next_sample, deadline);
      if (stopping_) wake = std::min(wake, kill_at_);
      pollfd waiting{signal_fd_, POLLIN, 0};
      const Nanoseconds wait = std::max<Nanoseconds>(0, wake - now());
      const timespec limit{wait / kSecond, wait % kSecond};
      ppoll(&waiting, 1, &limit, nullptr);
      take_signals();
      if (main_ended_) break;
      const Nanoseconds time = now();
      if (time >= deadline) stop("timeout");
      if (stopping_ && time >= kill_at_) signal_all(SIGKILL);
      if (time >= next_sample) {
        sample();
        const Nanoseconds cost = now() - time;
        next_sample = now() + std::max(request_.sample_interval, cost * kSampleShare);
      }
    }
  }

  void take_signals() {
    signalfd_siginfo information{};
    while (read(signal_fd_, &information, sizeof(information)) == sizeof(information)) {
      if (information.ssi_signo != SIGCHLD) stop("interrupted");
    }
    reap();
  }

  void reap() {
    while (true) {
      int status = 0;
      rusage usage{};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid <= 0) return;
      seen_.insert(pid);
      add(usage);
      if (pid != main_) continue;
      ended_ = now();
      main_ended_ = true;
      status_ = status;
    }
  }

  void add(const rusage& usage) {
    const auto microseconds = [](const timeval& time) {
      return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
    };
    usage_.user_microseconds += microseconds(usage.ru_utime);
    usage_.system_microseconds += microseconds(usage.ru_stime);
    usage_.minor_faults += usage.ru_minflt;
    usage_.major_faults += usage.ru_majflt;
    usage_.context_switches += usage.ru_nvcsw + usage.ru_nivcsw;
    usage_.largest_process_bytes =
        std::max<std::int64_t>(usage_.largest_process_bytes, usage.ru_maxrss * 1024);
  }

  void sample() {
    const std::vector<pid_t> tree = descendants();
    seen_.insert(tree.begin(), tree.end());
    std::uint64_t bytes = 0;
    for (const pid_t pid : tree) {
      std::array<char, 4096> path{};
      const std::string link = "/proc/" + std::to_string(pid) + "/exe";
      const ssize_t length = readlink(link.c_str(), path.data(), path.size());
      if (length > 0)
        programs_.emplace(pid, parent_of(pid),
                          std::string(path.data(), static_cast<std::size_t>(length)),
                          image_of(pid));
      if (tree.size() == 1)
        bytes += resident_bytes(pid);
      else if (!runs_in_memory_of_parent(pid))
        bytes += proportional_bytes(pid);
    }
    tree_bytes_ = std::max(tree_bytes_, bytes);
    ++samples_;
    if (bytes > request_.memory_limit) stop("memory-limit");
    struct stat output{};
    if (fstat(output_fd_, &output) == 0 &&
        static_cast<std::uint64_t>(output.st_size) > request_.output_limit)
      stop("output-limit");
  }

  void stop(const char* why) {
    if (stopping_) return;
    stopping_ = true;
    end_ = why;
    kill_at_ = now() + kTermGrace;
    signal_all(SIGTERM);
  }

  void signal_all(int signal) {
    kill(-main_, signal);
    for (const pid_t pid : descendants()) kill(pid, signal);
  }

  void end_stragglers() {
    const Nanoseconds grace_end = stopping_ ? now() : ended_ + kStragglerGrace;
    while (true) {
      int status = 0;
      rusage usage{};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid > 0) {
        seen_.insert(pid);
        add(usage);
        continue;
      }
      if (pid < 0 && errno == ECHILD) return;
      if (now() >= grace_end) {
        for (const pid_t left : descendants()) {
          left_behind_.insert(left);
          kill(left, SIGKILL);
        }
      }
      const timespec pause{0, kMillisecond};
      nanosleep(&pause, nullptr);
    }
  }

  int report() {
    int code = 0;
    int signal = 0;
    if (end_ == nullptr) end_ = WIFSIGNALED(status_) ? "signaled" : "exited";
    if (WIFSIGNALED(status_)) signal = WTERMSIG(status_);
    if (WIFEXITED(status_)) code = WEXITSTATUS(status_);
    const auto field = [](const char* name, auto value) {
      return std::string(",\"") + name + "\":" + std::to_string(value);
    };
    std::string text = "{\"end\":" + json_string(end_);
    text += field("code", code) + field("signal", signal);
    text += field("pid", main_) + field("wall_nanoseconds", ended_ - started_);
    text += field("user_microseconds", usage_.user_microseconds);
    text += field("system_microseconds", usage_.system_microseconds);
    text += field("minor_faults", usage_.minor_faults);
    text += field("major_faults", usage_.major_faults);
    text += field("context_switches", usage_.context_switches);
    text += field("largest_process_bytes", usage_.largest_process_bytes);
    text += field("tree_bytes", tree_bytes_) + field("samples", samples_);
    text += field("left_behind", left_behind_.size());
    text += field("oom_kills", kernel_oom_kills() - oom_kills_before_);
    text += ",\"pids\":[";
    for (bool first = true; const pid_t pid : seen_) {
      if (!first) text += ',';
      first = false;
      text += std::to_string(pid);
    }
    text += "],\"programs\":[";
    for (bool first = true; const auto& [pid, parent, path, image] : programs_) {
      if (!first) text += ',';
      first = false;
      text += '[';
      text += std::to_string(pid);
      text += ',';
      text += std::to_string(parent);
      text += ',';
      text += json_string(path);
      text += ',';
      text += std::to_string(image);
      text += ']';
    }
    text += "],\"counters\":{" + counters_ + "}";
    if (error_number_ != 0) {
      text += ",\"error_what\":" + json_string(error_what_);
      text += ",\"error_subject\":" + json_string(error_subject_);
      text += field("error_number", error_number_);
    }
    write_all(request_.report_fd, text + "}\n");
    return 0;
  }

  Request request_;
  int signal_fd_ = -1;
  int input_fd_ = -1;
  int output_fd_ = -1;
  int errors_fd_ = -1;
  pid_t main_ = -1;
  int status_ = 0;
  bool main_ended_ = false;
  bool stopping_ = false;
  const char* end_ = nullptr;
  const char* error_what_ = "";
  std::string error_subject_;
  int error_number_ = 0;
  Nanoseconds started_ = 0;
  Nanoseconds ended_ = 0;
  Nanoseconds kill_at_ = kNever;
  Usage usage_;
  std::uint64_t tree_bytes_ = 0;
  std::int64_t samples_ = 0;
  std::int64_t oom_kills_before_ = 0;
  std::unordered_set<pid_t> seen_;
  std::unordered_set<pid_t> left_behind_;
  // Seen at samples: process, its parent, its executable, its image.
  std::set<std::tuple<pid_t, pid_t, std::string, std::uint64_t>> programs_;
  std::string counters_;
};

}  // namespace

int main(int argc, char** argv) { return Launch(parse(argc, argv)).run(); }
