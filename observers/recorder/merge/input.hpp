// A file that is read, with errors that say which one and why.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../../tables/output.hpp"

namespace tare::recorder {

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
