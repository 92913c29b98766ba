// A file of /proc, read by calls of the kernel themselves: so within malloc, in a signal's handler,
// and by whoever stands in front of open and read.

#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tare::platform {

class ProcFile {
 public:
  explicit ProcFile(const char* path)
      : fd_(static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC))) {}
  ~ProcFile() {
    if (IsOpen()) syscall(SYS_close, fd_);
  }
  ProcFile(const ProcFile&) = delete;
  ProcFile& operator=(const ProcFile&) = delete;

  bool IsOpen() const { return fd_ >= 0; }
  int Descriptor() const { return fd_; }

  // How many bytes there were, 0 at the end; less for a failure.
  long Read(void* to, std::size_t most) const { return syscall(SYS_read, fd_, to, most); }
  long ReadAt(std::uint64_t offset, void* to, std::size_t most) const {
    return syscall(SYS_pread64, fd_, to, most, offset);
  }

 private:
  const int fd_;
};

}  // namespace tare::platform
