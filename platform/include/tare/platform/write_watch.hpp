// Pages of this process that are watched for writes (Linux 6.7), by the kernel's userfaultfd: a
// write to one goes on at once, and Pagemap::TakeWritten tells of it. Nothing here allocates.

#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tare::platform {

class WriteWatch {
 public:
  WriteWatch() {
    constexpr int kFaultsOfUserOnly = 1;  // UFFD_USER_MODE_ONLY: without it a right is needed
    constexpr std::uint64_t kPagesNotThereYet = 1 << 13, kAtOnce = 1 << 15;
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | kFaultsOfUserOnly));
    Version version{kInterface, kPagesNotThereYet | kAtOnce, 0};
    if (fd_ >= 0 && syscall(SYS_ioctl, fd_, _IOWR(kInterface, 0x3f, Version), &version) == 0)
      return;
    Close();
  }
  ~WriteWatch() { Close(); }
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  bool IsOpen() const { return fd_ >= 0; }

  // A mapping, whose pages count as written to. No matter if it is watched already.
  bool Watch(std::uint64_t from, std::uint64_t to) const {
    constexpr std::uint64_t kWrites = 2;
    Registration registration{{from, to - from}, kWrites, 0};
    return syscall(SYS_ioctl, fd_, _IOWR(kInterface, 0, Registration), &registration) == 0;
  }

  void Unwatch(std::uint64_t from, std::uint64_t to) const {
    Range range{from, to - from};
    syscall(SYS_ioctl, fd_, _IOR(kInterface, 1, Range), &range);
  }

 private:
  // Those of linux/userfaultfd.h.
  static constexpr std::uint64_t kInterface = 0xaa;
  struct Version {
    std::uint64_t interface, features, calls;
  };
  struct Range {
    std::uint64_t start, bytes;
  };
  struct Registration {
    Range range;
    std::uint64_t mode, calls;
  };

  void Close() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
    fd_ = -1;
  }

  int fd_ = -1;
};

}  // namespace tare::platform
