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

// Beyond this limit the kernel would send SIGXFSZ.
inline bool FileMayReach(std::uint64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

// A new file PID.SERIAL`ending` in `folder`, whose path without the ending is then in `stem`; or
// -1. Names do not clash: exec keeps the number of the process.
inline int ClaimName(const char* folder, const char* ending, Message& stem) {
  for (std::uint64_t serial = 0; serial < 10000; ++serial) {
    stem = {};
    stem << folder << "/" << static_cast<std::uint64_t>(getpid()) << "." << serial;
    Message path = stem;
    path << ending;
    const int fd = open(path.Text(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// `bytes` of an open file from `offset` on, as it grows to that; nullptr when they cannot be had.
// The pages behind the first `filled` bytes are not on the disk yet; platform::Populate puts them
// there. The descriptor is closed: a program may close or count descriptors that it did not open.
inline void* MapFile(int fd, std::uint64_t offset, std::size_t bytes, std::size_t filled) {
  if (fd < 0) return nullptr;
  const auto begin = static_cast<off_t>(offset);
  // A page that the disk cannot hold would be a SIGBUS when it is touched.
  const bool made = posix_fallocate(fd, begin, static_cast<off_t>(filled)) == 0 &&
                    (filled == bytes || ftruncate(fd, begin + static_cast<off_t>(bytes)) == 0);
  void* const pages =
      made ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, begin) : MAP_FAILED;
  close(fd);
  return pages == MAP_FAILED ? nullptr : pages;
}

// `bytes` of zeros, in a new file in `folder`.
inline void* MapSparseFile(const char* folder, std::size_t bytes, std::size_t filled) {
  if (!FileMayReach(bytes)) return nullptr;
  Message path;
  return MapFile(ClaimName(folder, "", path), 0, bytes, filled);
}

}  // namespace tare
