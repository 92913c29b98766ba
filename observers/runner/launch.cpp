// tare-launch: runs one program and reports what the kernel accounted for it and its descendants.
//
// A program started straight from Python inherits Python's peak resident size in its own
// ru_maxrss (the kernel carries the peak over at exec), so a small static process stands between
// them. It also is the subreaper of everything the program starts: nothing outlives a run.
//
// The report goes to the descriptor --report-fd.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "counters.hpp"
#include "groups.hpp"
#include "processes.hpp"
#include "report.hpp"
#include "request.hpp"

namespace tare::runner {
namespace {

// Between SIGTERM and SIGKILL, so that a program can remove its temporary files.
constexpr Nanoseconds kTermGrace = 500 * kMillisecond;
// What is still running shortly after the main process has ended was left behind on purpose.
constexpr Nanoseconds kStragglerGrace = 100 * kMillisecond;
// A sample of the tree's memory may cost at most one part in this many of the time between two.
constexpr Nanoseconds kSampleShare = 100;

// Where a program can fail to start.
enum class Step { kDirectory, kSetting, kExec };

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

class Supervision {
 public:
  explicit Supervision(Request request) : request_(std::move(request)) {}

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

    if (open_files()) {
      const std::int64_t oom_kills_before = kernel_oom_kills();
      const ProcessorTime before = processor_time(request_.setting.processors);
      if (start(inherited)) {
        watch();
        note_processor_time(before);
        end_stragglers();
        report_.counts = counters_->read();
      }
      report_.oom_kills = kernel_oom_kills() - oom_kills_before;
      report_.group = memory_of_groups(request_.groups);
    }
    remove_groups(request_.groups);
    report_.pid = main_;
    write_all(request_.report_fd, report_.text() + "\n");
    return 0;
  }

 private:
  bool fail(const char* what, const std::string& subject, int error) {
    report_.end = "error";
    report_.failure = {what, subject, error};
    return false;
  }

  void note_processor_time(const ProcessorTime& before) {
    const ProcessorTime after = processor_time(request_.setting.processors);
    if (before.busy_milliseconds < 0 || after.busy_milliseconds < 0) return;
    // The kernel's sums of steal can go back a little.
    report_.processors = {
        std::max<std::int64_t>(0, after.busy_milliseconds - before.busy_milliseconds),
        std::max<std::int64_t>(0, after.stolen_milliseconds - before.stolen_milliseconds)};
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
    counters_.emplace(request_.counters, main_);
    started_ = now();
    close(ready[1]);
    std::array<int, 2> reason{};
    ssize_t count = 0;
    do {
      count = read(failure[0], reason.data(), sizeof(reason));
    } while (count < 0 && errno == EINTR);
    close(failure[0]);
    if (count == 0) {
      look_at_setting(main_);
      return true;
    }
    waitpid(main_, nullptr, 0);
    switch (static_cast<Step>(reason[0])) {
      case Step::kDirectory:
        return fail("directory", request_.directory, reason[1]);
      case Step::kSetting:
        return fail("setting", "", reason[1]);
      case Step::kExec:
        break;
    }
    return fail("exec", request_.command[0], reason[1]);
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
    std::array<int, 2> reason{};
    if (!request_.directory.empty() && chdir(request_.directory.c_str()) != 0) {
      reason = {static_cast<int>(Step::kDirectory), errno};
    } else if (!enter_groups(request_.groups) || !request_.setting.apply()) {
      reason = {static_cast<int>(Step::kSetting), errno};
    } else {
      dup2(input_fd_, STDIN_FILENO);
      dup2(output_fd_, STDOUT_FILENO);
      dup2(errors_fd_, STDERR_FILENO);
      sigprocmask(SIG_SETMASK, &inherited, nullptr);
      execvp(request_.command[0], request_.command);
      reason = {static_cast<int>(Step::kExec), errno};
    }
    write_all(failure[1], {reinterpret_cast<const char*>(reason.data()), sizeof(reason)});
    _exit(127);
  }

  void look_at_setting(pid_t pid) {
    if (!report_.setting_broken.empty()) return;
    if (const std::string broken = request_.setting.broken_by(pid); !broken.empty())
      report_.setting_broken = "process " + std::to_string(pid) + " " + broken;
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
      report_.seen.insert(pid);
      report_.add(usage);
      if (pid != main_) continue;
      report_.wall = now() - started_;
      report_.status = status;
      main_ended_ = true;
    }
  }

  void sample() {
    const std::vector<pid_t> tree = descendants();
    std::uint64_t bytes = 0;
    for (const pid_t pid : tree) {
      look_at_setting(pid);
      if (tree.size() > 1 && runs_in_memory_of_parent(pid)) continue;
      report_.seen.insert(pid);
      if (const std::string path = executable_of(pid); !path.empty())
        report_.programs.emplace(pid, parent_of(pid), path, image_of(pid));
      bytes += tree.size() == 1 ? resident_bytes(pid) : proportional_bytes(pid);
    }
    report_.tree_bytes = std::max(report_.tree_bytes, bytes);
    ++report_.samples;
    if (bytes > request_.memory_limit) stop("memory-limit");
    struct stat output{};
    if (fstat(output_fd_, &output) == 0 &&
        static_cast<std::uint64_t>(output.st_size) > request_.output_limit)
      stop("output-limit");
  }

  void stop(const char* why) {
    if (stopping_) return;
    stopping_ = true;
    report_.end = why;
    kill_at_ = now() + kTermGrace;
    signal_all(SIGTERM);
  }

  void signal_all(int signal) {
    kill(-main_, signal);
    for (const pid_t pid : descendants()) kill(pid, signal);
  }

  void end_stragglers() {
    const Nanoseconds grace_end = stopping_ ? now() : started_ + report_.wall + kStragglerGrace;
    while (true) {
      int status = 0;
      rusage usage{};
      const pid_t pid = wait4(-1, &status, WNOHANG, &usage);
      if (pid > 0) {
        report_.seen.insert(pid);
        report_.add(usage);
        continue;
      }
      if (pid < 0 && errno == ECHILD) return;
      if (now() >= grace_end) {
        for (const pid_t left : descendants()) {
          report_.left_behind.insert(left);
          kill(left, SIGKILL);
        }
      }
      const timespec pause{0, kMillisecond};
      nanosleep(&pause, nullptr);
    }
  }

  Request request_;
  int signal_fd_ = -1;
  int input_fd_ = -1;
  int output_fd_ = -1;
  int errors_fd_ = -1;
  pid_t main_ = -1;
  bool main_ended_ = false;
  bool stopping_ = false;
  Nanoseconds started_ = 0;
  Nanoseconds kill_at_ = kNever;
  std::optional<Counters> counters_;
  Report report_;
};

}  // namespace
}  // namespace tare::runner

int main(int argc, char** argv) {
  return tare::runner::Supervision(tare::runner::parse(argc, argv)).run();
}
