// A line of the file of proofs, put together without an allocator; fields are separated by tabs.

#pragma once

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstddef>

namespace tare::runner {

constexpr std::size_t kLineBytes = 16384, kPathBytes = 4096;

class Line {
 public:
  // What would end a field becomes a question mark.
  Line& operator<<(const char* field) {
    for (; *field != '\0'; ++field) *this << (*field == '\t' || *field == '\n' ? '?' : *field);
    return *this;
  }
  Line& operator<<(char byte) {
    if (used_ + 1 < sizeof text_) text_[used_++] = byte;
    return *this;
  }
  Line& operator<<(unsigned long number) {
    char digits[24];
    char* at = digits + sizeof digits;
    *--at = '\0';
    do *--at = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    return *this << at;
  }
  const char* Text() const { return text_; }
  std::size_t Length() const { return used_; }

  // In a single write at the end of the file. What cannot be written is missing, which the runner
  // notices.
  void AppendTo(const char* path) const {
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t ignored = write(fd, text_, used_);
    static_cast<void>(ignored);
    close(fd);
  }

 private:
  char text_[kLineBytes] = {};
  std::size_t used_ = 0;
};

inline void PutExecutable(Line& line) {
  char path[kPathBytes];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  line << path;
}

// The address of the random bytes that the kernel gave to this image of the program: a process that
// executes the same file again has another.
inline unsigned long Image() { return getauxval(AT_RANDOM); }

}  // namespace tare::runner
