// A file that is written, with errors that say which one and why.

#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace tare {

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

}  // namespace tare
