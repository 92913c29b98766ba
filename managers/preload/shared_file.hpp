// A file of a fixed size that is mapped and shared: what is written there is complete however the
// process ends, by exit, _exit, exec, abort or a kill.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "system.hpp"

namespace tare {

// A new file PID.SERIAL in `folder`, or -1. Names do not clash: exec keeps the number of the
// process.
inline int CreateFile(const char* folder, std::size_t bytes) {
  rlimit limit{};
  // Beyond this limit the kernel would send SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) return -1;
  for (std::uint64_t serial = 0; serial < 10000; ++serial) {
    Message path;
    path << folder << "/" << static_cast<std::uint64_t>(getpid()) << "." << serial;
    const int fd = open(path.Text(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// `bytes` of zeros, in a new file in `folder`; nullptr when that cannot be had. The pages behind
// the first `filled` bytes are not on the disk yet; platform::Populate puts them there. The
// descriptor is closed again: a program may close or count descriptors that it did not open.
inline void* MapSparseFile(const char* folder, std::size_t bytes, std::size_t filled) {
  const int fd = CreateFile(folder, bytes);
  if (fd < 0) return nullptr;
  // A page that the disk cannot hold would be a SIGBUS when it is touched.
  const bool made = posix_fallocate(fd, 0, static_cast<off_t>(filled)) == 0 &&
                    (filled == bytes || ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  void* const pages =
      made ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  close(fd);
  return pages == MAP_FAILED ? nullptr : pages;
}

}  // namespace tare
