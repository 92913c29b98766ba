// What the layer asks of the kernel: pages, time and words on standard error. Nothing here
// allocates, and nothing changes errno: free must leave it alone.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace tare {

class KeepErrno {
 public:
  KeepErrno() : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int kept_;
};

inline std::uint64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Fresh pages, or nullptr. A huge page under a buffer of which little is used would count as
// memory of the program.
inline void* MapPages(std::size_t bytes) {
  void* const pages =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  madvise(pages, bytes, MADV_NOHUGEPAGE);
  return pages;
}

// A message put together without an allocator, and written in one go.
class Message {
 public:
  Message& operator<<(const char* text) {
    while (*text != '\0' && used_ < sizeof text_) text_[used_++] = *text++;
    return *this;
  }
  Message& operator<<(std::uint64_t number) { return Digits(number, 10); }
  Message& Hexadecimal(std::uint64_t number) { return (*this << "0x").Digits(number, 16); }
  void Write(int fd) const {
    const ssize_t ignored = write(fd, text_, used_);
    static_cast<void>(ignored);
  }
  std::size_t Bytes() const { return used_; }
  const char* Text() {
    text_[used_ < sizeof text_ ? used_ : sizeof text_ - 1] = '\0';
    return text_;
  }

 private:
  Message& Digits(std::uint64_t number, unsigned base) {
    char digits[24];
    char* at = digits + sizeof digits - 1;
    *at = '\0';
    do *--at = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    return *this << at;
  }

  char text_[4400];
  std::size_t used_ = 0;
};

[[noreturn]] inline void Abort(Message& message) {
  (message << "\n").Write(STDERR_FILENO);
  abort();
}

}  // namespace tare
