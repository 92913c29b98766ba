// The mappings of this process, as the kernel tells them. Nothing here allocates, so it can be used
// within malloc and in a signal's handler.

#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tare/platform/proc_file.hpp"

namespace tare::platform {

struct MapsRow {
  std::uintptr_t start, end;
  bool readable, writable, executable, is_private, has_file;

  bool Contains(std::uintptr_t address) const { return address - start < end - start; }
};

// Not by way of /proc/self: that is the first thread, which may have ended.
inline constexpr const char* kMapsPath = "/proc/thread-self/maps";

// The rows in the order of their addresses. Of a name, which is a path, a word in brackets or
// empty, so many bytes are there, the last of them a zero.
template <std::size_t kNameBytes = 2>
class MapsReader {
 public:
  // A larger block takes fewer calls; a handler's stack may be small.
  MapsReader() : MapsReader(own_block_) {}
  explicit MapsReader(std::span<unsigned char> block)
      : block_(block), at_(block.data()), end_(block.data()) {}
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;

  // False at the end, and where no more can be read.
  bool Next(MapsRow& row) {
    if (Here() == kNone) return false;
    row.start = Hexadecimal();
    Take();
    row.end = Hexadecimal();
    Take();
    row.readable = Take() == 'r';
    row.writable = Take() == 'w';
    row.executable = Take() == 'x';
    row.is_private = Take() == 'p';
    Take();
    SkipField();  // offset
    SkipField();  // device
    row.has_file = Here() != '0';
    SkipField();
    while (Here() == ' ') Take();
    std::size_t used = 0;
    for (; Here() != '\n' && Here() != kNone; Take())
      if (used + 1 < kNameBytes) name_[used++] = static_cast<char>(Here());
    name_[used] = '\0';
    return Take() == '\n';
  }

  // Of the last row.
  const char* Name() const { return name_; }
  bool HasFailed() const { return has_failed_; }

 private:
  static constexpr int kNone = -1;

  int Here() {
    if (at_ == end_ && !Fill()) return kNone;
    return *at_;
  }
  int Take() {
    const int here = Here();
    if (here != kNone) ++at_;
    return here;
  }

  __attribute__((noinline)) bool Fill() {
    const long count = has_failed_ ? 0 : file_.Read(block_.data(), block_.size());
    has_failed_ |= count < 0;
    at_ = block_.data();
    end_ = at_ + (count > 0 ? count : 0);
    return count > 0;
  }

  std::uintptr_t Hexadecimal() {
    std::uintptr_t number = 0;
    for (;; ++at_) {
      const int c = Here();
      if (c >= '0' && c <= '9')
        number = number * 16 + static_cast<std::uintptr_t>(c - '0');
      else if (c >= 'a' && c <= 'f')
        number = number * 16 + static_cast<std::uintptr_t>(c - 'a' + 10);
      else
        return number;
    }
  }
  void SkipField() {
    while (Here() != ' ' && Here() != '\n' && Here() != kNone) Take();
    if (Here() == ' ') Take();
  }

  const ProcFile file_{kMapsPath};
  bool has_failed_ = !file_.IsOpen();
  char name_[kNameBytes];
  unsigned char own_block_[1024];
  const std::span<unsigned char> block_;
  const unsigned char* at_;
  const unsigned char* end_;
};

// Linux 6.11 answers for one mapping at a time, in numbers.
class MapsQuery {
 public:
  enum Wanted : std::uint64_t { kReadable = 1, kWritable = 2 };
  enum class Answer { kFound, kNone, kUnknown };

  // The first mapping that ends behind `address` and is as wanted.
  Answer Next(Wanted wanted, std::uintptr_t address, MapsRow& row) const {
    constexpr unsigned long kProcmapQuery = 0xc0686611;
    Question question{};
    question.size = sizeof question;
    question.flags = wanted | kThisOrNext;
    question.address = address;
    if (syscall(SYS_ioctl, file_.Descriptor(), kProcmapQuery, &question) != 0)
      return errno == ENOENT ? Answer::kNone : Answer::kUnknown;
    const std::uint64_t flags = question.found_flags;
    row = {.start = question.start,
           .end = question.end,
           .readable = (flags & kReadable) != 0,
           .writable = (flags & kWritable) != 0,
           .executable = (flags & kExecutable) != 0,
           .is_private = (flags & kShared) == 0,
           .has_file = question.inode != 0};
    return Answer::kFound;
  }

 private:
  // struct procmap_query of linux/fs.h.
  struct Question {
    std::uint64_t size, flags, address;
    std::uint64_t start, end, found_flags, page_size, offset, inode;
    std::uint32_t major, minor, name_size, build_id_size;
    std::uint64_t name, build_id;
  };
  static_assert(sizeof(Question) == 104);
  static constexpr std::uint64_t kExecutable = 4, kShared = 8, kThisOrNext = 16;

  const ProcFile file_{kMapsPath};
};

}  // namespace tare::platform
