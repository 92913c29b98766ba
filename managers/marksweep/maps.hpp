// What the kernel tells of the address space: mappings, and which of their pages hold data of the
// process.

#pragma once

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "ranges.hpp"

namespace tare {

struct Mapping {
  Address from, to;
  bool readable, writable;
  bool of_file;
};

inline int OpenToRead(const char* path) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
}

class MappingLine {
 public:
  explicit MappingLine(const char* at) : at_(at) {}

  // False for mappings that are shared.
  bool Parse(Mapping& mapping) {
    mapping.from = Number();
    mapping.to = Number();
    mapping.readable = at_[0] == 'r';
    mapping.writable = at_[1] == 'w';
    const bool is_private = at_[3] == 'p';
    at_ += 5;
    for (int field = 0; field < 2; ++field) Skip();  // offset, device
    mapping.of_file = *at_ != '0';
    return is_private;
  }

 private:
  void Skip() {
    while (*at_ != ' ' && *at_ != '\0') ++at_;
    if (*at_ == ' ') ++at_;
  }
  Address Number() {
    Address number = 0;
    for (;; ++at_) {
      const char c = *at_;
      if (c >= '0' && c <= '9')
        number = number * 16 + static_cast<Address>(c - '0');
      else if (c >= 'a' && c <= 'f')
        number = number * 16 + static_cast<Address>(c - 'a' + 10);
      else
        break;
    }
    ++at_;
    return number;
  }

  const char* at_;
};

// The private mappings of this process, sorted: those that can be written to, and those that can
// only be read and are the program's own.
class Mappings {
 public:
  void MapList() { list_.Map(); }

  // False when they cannot be read. Not by way of /proc/self: that is the first thread, which may
  // have ended.
  bool Read() {
    list_.Clear();
    const int fd = OpenToRead("/proc/thread-self/maps");
    if (fd < 0) return false;
    const bool read = Query(fd) || ReadText(fd);
    syscall(SYS_close, fd);
    return read && !list_.Empty();
  }

  const Mapping* Of(Address address) {
    const Mapping* const found =
        std::upper_bound(list_.begin(), list_.end(), address,
                         [](Address at, const Mapping& mapping) { return at < mapping.to; });
    return found != list_.end() && found->from <= address ? found : nullptr;
  }

  const Mapping* begin() { return list_.begin(); }
  const Mapping* end() { return list_.end(); }

 private:
  // Linux 6.11 answers for one mapping at a time, in numbers; struct procmap_query of linux/fs.h.
  struct Question {
    std::uint64_t size, flags, address;
    std::uint64_t from, to, found_flags, page_size, offset, inode;
    std::uint32_t major, minor, name_size, build_id_size;
    std::uint64_t name, build_id;
  };
  static_assert(sizeof(Question) == 104);
  enum : std::uint64_t { kReadable = 1, kWritable = 2, kShared = 8, kThisOrNext = 16 };

  // The first mapping at or after `address` that is as wanted. 1: there is one, 0: there is none.
  static int Ask(int fd, std::uint64_t wanted, Address address, Question& question) {
    constexpr unsigned long kProcmapQuery = 0xc0686611;
    question = {};
    question.size = sizeof question;
    question.flags = wanted | kThisOrNext;
    question.address = address;
    if (syscall(SYS_ioctl, fd, kProcmapQuery, &question) == 0) return 1;
    return errno == ENOENT ? 0 : -1;
  }

  bool Query(int fd) {
    Question question;
    int found = 0;
    for (Address at = 0; (found = Ask(fd, kWritable, at, question)) == 1; at = question.to)
      if (!Keep(question)) return false;
    if (found != 0) return false;
    const std::size_t writable = list_.Size();
    // By address: the list of mappings may grow, which adds a range.
    for (Address done = 0; ranges.FirstEndingAfter(done) != ranges.End();) {
      const Ranges::Range range = *ranges.FirstEndingAfter(done);
      done = range.to;
      if (range.owner != Owner::kProgram) continue;
      for (Address at = range.from;
           at < range.to && Ask(fd, kReadable, at, question) == 1 && question.from < range.to;
           at = question.to)
        if ((question.found_flags & kWritable) == 0 && !Keep(question)) return false;
    }
    if (list_.Size() != writable) SortOnce();
    return true;
  }

  bool Keep(const Question& question) {
    return (question.found_flags & kShared) != 0 ||
           list_.Add({question.from, question.to, (question.found_flags & kReadable) != 0,
                      (question.found_flags & kWritable) != 0, question.inode != 0});
  }

  void SortOnce() {
    std::sort(list_.begin(), list_.end(),
              [](const Mapping& a, const Mapping& b) { return a.from < b.from; });
    std::size_t kept = 1;
    for (const Mapping& each : list_)
      if (each.from != list_[kept - 1].from) list_[kept++] = each;
    list_.Shorten(kept);
  }

  bool ReadText(int fd) {
    static char text[32768];
    list_.Clear();
    std::size_t kept = 0;
    long length = 0;
    bool good = true;
    while ((length = syscall(SYS_read, fd, text + kept, sizeof text - 1 - kept)) > 0) {
      const std::size_t filled = kept + static_cast<std::size_t>(length);
      text[filled] = '\0';
      char* line = text;
      for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
        *end = '\0';
        Mapping mapping{};
        if (MappingLine(line).Parse(mapping)) good &= list_.Add(mapping);
      }
      kept = static_cast<std::size_t>(text + filled - line);
      memmove(text, line, kept);
    }
    return good && length == 0;
  }

  OwnArray<Mapping> list_;
};

// Calls visit(from, to) for the parts of a range whose pages hold data of the process: pages that
// were never written to hold none, nor do those that are still as in their file, and guard pages
// (MADV_GUARD_INSTALL), which look swapped, may not be read. Without the
// kernel's word for it the range is visited as it is.
class PresentPages {
 public:
  ~PresentPages() {
    if (fd_ >= 0) syscall(SYS_close, fd_);
  }

  template <typename Visit>
  void Each(Address from, Address to, Visit visit) {
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62,
                            kOfFile = std::uint64_t{1} << 61, kGuard = std::uint64_t{1} << 58;
    if (fd_ == kNotOpen) fd_ = OpenToRead("/proc/thread-self/pagemap");
    static std::uint64_t entries[512];
    Address begin = 0;
    for (Address at = PageDown(from); at < to;) {
      const std::size_t wanted = std::min<std::size_t>(512, (PageUp(to) - at) / kPageBytes);
      const long length = fd_ < 0 ? -1
                                  : syscall(SYS_pread64, fd_, entries, wanted * sizeof *entries,
                                            at / kPageBytes * sizeof *entries);
      const auto read = length <= 0 ? 0 : static_cast<std::size_t>(length) / sizeof *entries;
      for (std::size_t i = 0; i < wanted; ++i, at += kPageBytes) {
        const std::uint64_t entry = i < read ? entries[i] : kPresent;
        const bool holds_data =
            (entry & (kPresent | kSwapped)) != 0 && (entry & (kOfFile | kGuard)) == 0;
        if (holds_data && begin == 0) begin = at;
        if (!holds_data && begin != 0) visit(std::max(begin, from), at);
        if (!holds_data) begin = 0;
      }
    }
    if (begin != 0) visit(std::max(begin, from), to);
  }

 private:
  static constexpr int kNotOpen = -2;
  int fd_ = kNotOpen;
};

}  // namespace tare
