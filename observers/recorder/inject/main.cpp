// tare-inject: has a running process call functions, and lets it go.
//
//   tare-inject attach PID SECONDS SAFE MMAP MUNMAP DLOPEN DLSYM DLERROR LIBRARY FOLDER SAMPLE
//               STACKS SWITCH
//   tare-inject detach PID SECONDS SAFE MMAP MUNMAP FUNCTION
//
// Names in capitals before LIBRARY are addresses in the process, in hexadecimal digits; SAFE is
// START-END. One thread is stopped for some milliseconds; the others run on. What it is to call may
// allocate and load, so it must be where neither the allocator nor the dynamic linker is at work:
// waiting in the kernel for what is no lock of theirs, or in the code of SAFE.
//
// Prints what the functions returned: PATCHED FUNCTION, or RESTORED. Exit status 3: not permitted;
// 4: no thread came to such a place; 5: the library cannot be loaded, with the reason; 6: the
// process ended or does not do what it is told.

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tare/platform/stopped.hpp"

namespace {

using Address = std::uintptr_t;
using tare::platform::StoppedRegisters;

enum Status : int { kUsage = 2, kNotPermitted = 3, kBusy = 4, kNotLoaded = 5, kGone = 6 };
constexpr std::size_t kStackBytes = 512 << 10, kMostReason = 1000;
constexpr long kPauseNanoseconds = 1'000'000;

struct Failure {
  Status status;
  std::string reason;
};

struct Range {
  Address start, end;
  bool Holds(Address address) const { return address - start < end - start; }
};

Address Hexadecimal(const char* word) { return std::strtoull(word, nullptr, 16); }

// Waiting there, a thread holds no lock of the allocator or the dynamic linker.
bool IsCalm(long call, Address second_argument) {
  switch (call) {
    case SYS_futex:  // of conditions and joins; locks wait in another way
      return (second_argument & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
#ifdef SYS_poll
    case SYS_poll:
    case SYS_select:
    case SYS_epoll_wait:
    case SYS_pause:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait:
    case SYS_read:
    case SYS_write:
    case SYS_readv:
    case SYS_writev:
    case SYS_sched_yield:
      return true;
    default:
      return false;
  }
}

// A thread that is stopped until this goes.
class Stopped {
 public:
  Stopped(int process, int thread) : thread_(thread) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
      if (errno == EPERM) throw Failure{kNotPermitted, ""};
      return;  // it has ended
    }
    is_seized_ = true;
    const std::string path = "/proc/" + std::to_string(process) + "/mem";
    memory_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (memory_ < 0) throw Failure{kNotPermitted, ""};
    int status;
    is_stopped_ = ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
                  waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status) &&
                  before_.Read(thread);
    // A signal that came at once is the program's.
    if (is_stopped_ && status >> 16 == 0) signal_ = WSTOPSIG(status);
  }
  ~Stopped() {
    if (is_changed_) before_.Write(thread_);
    if (is_seized_) ptrace(PTRACE_DETACH, thread_, nullptr, static_cast<long>(signal_));
    if (memory_ >= 0) close(memory_);
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  bool IsAt(const Range& safe) const {
    if (!is_stopped_ || signal_ != 0) return false;
    const long call = before_.CallNumber();
    return call >= 0 ? IsCalm(call, before_.SecondArgument()) : safe.Holds(before_.Next());
  }

  // On the thread's own stack until it has another.
  void UseStack(Address start) { stack_end_ = start + kStackBytes; }

  void LeaveStack() { stack_end_ = 0; }

  // The text, on the other stack.
  Address Put(const std::string& text) {
    stack_end_ = ((stack_end_ - text.size() - 1) & ~Address{15});
    WriteMemory(stack_end_, text.c_str(), text.size() + 1);
    return stack_end_;
  }

  // What the function returns. Signals that come meanwhile are delivered.
  Address Call(Address function, std::vector<Address> words) {
    Address six[6] = {};
    for (std::size_t i = 0; i < words.size(); ++i) six[i] = words[i];
    constexpr Address kNowhere = 0;
    const Address end = stack_end_ != 0 ? stack_end_ : before_.Stack();
    const Address at = StoppedRegisters::PlaceOfReturn(end);
    WriteMemory(at, &kNowhere, sizeof kNowhere);
    auto now = std::make_unique<StoppedRegisters>(before_);
    now->BeginCall(function, at, six);
    is_changed_ = true;
    if (!now->Write(thread_)) throw Failure{kGone, "its registers cannot be written"};
    int deliver = 0;
    for (;;) {
      int status;
      if (ptrace(PTRACE_CONT, thread_, nullptr, static_cast<long>(deliver)) != 0 ||
          waitpid(thread_, &status, __WALL) != thread_ || !WIFSTOPPED(status)) {
        is_changed_ = is_seized_ = false;
        throw Failure{kGone, "it ended"};
      }
      if (!now->Read(thread_)) throw Failure{kGone, "its registers cannot be read"};
      deliver = status >> 16 == 0 ? WSTOPSIG(status) : 0;
      if (deliver == SIGSEGV && now->Next() == kNowhere) return now->Result();
      if (deliver == SIGSEGV || deliver == SIGBUS || deliver == SIGILL)
        throw Failure{kGone, "what it was to call failed"};
    }
  }

  std::string Text(Address address) const {
    std::string text(kMostReason, '\0');
    const ssize_t count = pread(memory_, text.data(), text.size(), static_cast<off_t>(address));
    return count > 0 ? std::string(text.c_str()) : "";
  }

 private:
  void WriteMemory(Address at, const void* bytes, std::size_t count) const {
    if (pwrite(memory_, bytes, count, static_cast<off_t>(at)) != static_cast<ssize_t>(count))
      throw Failure{kGone, "its memory cannot be written"};
  }

  const int thread_;
  int memory_ = -1, signal_ = 0;
  bool is_seized_ = false, is_stopped_ = false, is_changed_ = false;
  Address stack_end_ = 0;
  StoppedRegisters before_;
};

std::vector<int> ThreadsOf(int process) {
  std::vector<int> found;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(process) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    found.push_back(std::atoi(entry.path().filename().c_str()));
  if (found.empty()) throw Failure{kGone, "it ended"};
  return found;
}

// A thread that can call what is asked.
std::unique_ptr<Stopped> Calm(int process, double seconds, const Range& safe) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double end =
      static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) + seconds;
  for (;;) {
    for (const int thread : ThreadsOf(process)) {
      auto stopped = std::make_unique<Stopped>(process, thread);
      if (stopped->IsAt(safe)) return stopped;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) >= end)
      throw Failure{kBusy, ""};
    const timespec pause{0, kPauseNanoseconds};
    nanosleep(&pause, nullptr);
  }
}

void Attach(Stopped& in, char** words) {
  const Address open = Hexadecimal(words[0]), look_up = Hexadecimal(words[1]);
  const Address library = in.Put(words[3]);
  const Address handle = in.Call(open, {library, 2});  // RTLD_NOW
  if (handle == 0) {
    const Address text = in.Call(Hexadecimal(words[2]), {});
    throw Failure{kNotLoaded, text != 0 ? in.Text(text) : ""};
  }
  const Address attach = in.Call(look_up, {handle, in.Put("tare_attach")});
  const Address detach = in.Call(look_up, {handle, in.Put("tare_detach")});
  if (attach == 0 || detach == 0) throw Failure{kNotLoaded, "it is another library"};
  const Address folder = in.Put(words[4]), turned = in.Put(words[7]);
  const Address patched = in.Call(attach, {folder, std::strtoull(words[5], nullptr, 10),
                                           std::strtoull(words[6], nullptr, 10), turned});
  std::printf("%d %lx\n", static_cast<int>(patched), static_cast<unsigned long>(detach));
}

int Run(int count, char** words) {
  const bool attaches = count == 15 && std::strcmp(words[1], "attach") == 0;
  const bool detaches = count == 8 && std::strcmp(words[1], "detach") == 0;
  if (!attaches && !detaches) return kUsage;
  char* rest;
  const Address start = std::strtoull(words[4], &rest, 16);
  const Range safe{start, *rest == '-' ? Hexadecimal(rest + 1) : start};
  const auto stopped = Calm(std::atoi(words[2]), std::atof(words[3]), safe);
  const Address pages = stopped->Call(Hexadecimal(words[5]),
                                      {0, kStackBytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, ~Address{0}, 0});
  if (pages == ~Address{0}) throw Failure{kGone, "it has no address space left"};
  stopped->UseStack(pages);
  if (attaches) {
    try {
      Attach(*stopped, words + 7);
    } catch (const Failure& failure) {
      stopped->LeaveStack();
      if (failure.status != kGone) stopped->Call(Hexadecimal(words[6]), {pages, kStackBytes});
      throw;
    }
  } else {
    const Address restored = stopped->Call(Hexadecimal(words[7]), {});
    std::printf("%d\n", static_cast<int>(restored));
  }
  stopped->LeaveStack();
  stopped->Call(Hexadecimal(words[6]), {pages, kStackBytes});
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return Run(count, words);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.reason.c_str());
    return failure.status;
  }
}
