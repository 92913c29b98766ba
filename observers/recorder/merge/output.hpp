// Files, with errors that say which file and why.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace tare::recorder {

inline std::runtime_error Problem(const std::string& path) {
  return std::runtime_error(path + ": " + strerror(errno));
}

class Output {
 public:
  explicit Output(const std::string& path) : path_(path), file_(fopen(path.c_str(), "we")) {
    if (file_ == nullptr) throw Problem(path_);
  }
  ~Output() {
    if (file_ != nullptr) fclose(file_);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void Write(const void* data, std::size_t bytes) {
    if (fwrite(data, 1, bytes, file_) != bytes) throw Problem(path_);
  }
  void Write(const std::string& text) { Write(text.data(), text.size()); }
  void Close() {
    if (fclose(std::exchange(file_, nullptr)) != 0) throw Problem(path_);
  }

 private:
  std::string path_;
  FILE* file_;
};

// A file in memory, to be read once from its beginning to its end. A missing one is empty.
class Input {
 public:
  explicit Input(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return;
    struct stat status{};
    if (file < 0 || fstat(file, &status) != 0) throw Problem(path);
    bytes_ = static_cast<std::size_t>(status.st_size);
    if (bytes_ != 0) {
      void* const pages = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
      if (pages == MAP_FAILED) throw Problem(path);
      data_ = static_cast<const std::uint8_t*>(pages);
    }
    close(file);
  }
  ~Input() {
    if (data_ != nullptr) munmap(const_cast<std::uint8_t*>(data_), bytes_);
  }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return bytes_; }

  // These whole pages will not be read again.
  void Drop(std::size_t offset, std::size_t bytes) const {
    madvise(const_cast<std::uint8_t*>(data_) + offset, bytes, MADV_DONTNEED);
  }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tare::recorder
