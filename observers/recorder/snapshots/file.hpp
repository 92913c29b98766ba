// Writes the file of a snapshot.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format.hpp"
#include "tare/platform/proc_file.hpp"

namespace tare::recorder::snapshot {

// Parts of a file, collected into few writes. One snapshot is taken at a time.
constinit inline char room[(32 << 10) + sizeof(Part)] = {};
class Writer {
 public:
  explicit Writer(const char* path)
      : fd_(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  ~Writer() {
    if (fd_ >= 0) close(fd_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void Put(Kind kind, const void* bytes, std::size_t count) {
    const char* from = static_cast<const char*>(bytes);
    if (kind != kind_ || used_ + count > kRoom) Flush();
    kind_ = kind;
    for (; count > kRoom; from += kRoom, count -= kRoom) {
      Append(from, kRoom);
      Flush();
    }
    Append(from, count);
  }
  void Finish() {
    Put(kEnd, nullptr, 0);
    Write(kEnd);
  }
  bool Failed() const { return failed_; }

 private:
  static constexpr std::size_t kRoom = sizeof room - sizeof(Part);
  void Append(const char* bytes, std::size_t count) {
    if (count > 0) memcpy(room + sizeof(Part) + used_, bytes, count);
    used_ += count;
  }
  void Flush() {
    if (used_ > 0) Write(kind_);
  }
  void Write(Kind kind) {
    const Part part{kind, static_cast<std::uint32_t>(used_)};
    memcpy(room, &part, sizeof part);
    const std::size_t all = sizeof part + used_;
    if (write(fd_, room, all) != static_cast<ssize_t>(all)) failed_ = true;
    used_ = 0;
  }

  const int fd_;
  Kind kind_ = kEnd;
  std::size_t used_ = 0;
  bool failed_ = false;
};

inline void Copy(Writer& writer, Kind kind, const char* path) {
  const platform::ProcFile file(path);
  char text[4096];
  for (long count; (count = file.Read(text, sizeof text)) > 0;)
    writer.Put(kind, text, static_cast<std::size_t>(count));
}

}  // namespace tare::recorder::snapshot
