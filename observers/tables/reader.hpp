// Reads a table of a raw recording, row by row. One that was cut off ends before its end, as one
// that is not there does; whoever makes the trace of it says what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "block.h"

namespace tare {

class TableReader {
 public:
  TableReader(const std::string& path, const std::vector<std::string>& wanted) {
    file_.open(path, std::ios::binary);
    std::string line;
    if (!std::getline(file_, line)) return;
    std::istringstream words(line);
    std::vector<std::string> names;
    for (std::string word; words >> word;) names.push_back(word);
    for (const auto& name : wanted) {
      for (std::size_t i = kWordsBefore; i < names.size(); ++i)
        if (names[i] == name) places_.push_back(i - kWordsBefore);
    }
    columns_ = names.size() < kWordsBefore ? 0 : names.size() - kWordsBefore;
    if (places_.size() == wanted.size()) advance();
  }

  // Whether there is a row, which then is in the order of the wanted columns.
  bool has_row() const { return row_ < rows_; }
  std::uint64_t operator[](std::size_t column) const { return values_[column][row_]; }

  void advance() {
    if (++row_ >= rows_ && !read_block()) rows_ = 0;
  }

 private:
  static constexpr std::size_t kWordsBefore = 3;  // tare-table 1 NAME
  static constexpr std::uint32_t kMostRows = 1 << 16;

  bool read_block() {
    std::uint32_t header[4];
    row_ = 0;
    if (!file_.read(reinterpret_cast<char*>(header), sizeof header) ||
        header[0] != TARE_TABLE_MAGIC || header[1] == 0 || header[1] > kMostRows ||
        header[2] > columns_ * (TARE_TABLE_COLUMN_BYTES + 8UL * header[1]))
      return false;
    std::string payload(header[2], '\0');
    if (!file_.read(payload.data(), static_cast<std::streamsize>(payload.size()))) return false;
    rows_ = header[1];
    return decode(payload);
  }

  bool decode(const std::string& payload) {
    std::size_t at = TARE_TABLE_COLUMN_BYTES * columns_;
    if (payload.size() < at) return false;
    std::vector<std::size_t> starts(columns_ + 1, at);
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::uint64_t width = number(payload, TARE_TABLE_COLUMN_BYTES * column + 8, 8);
      if (width > 8) return false;
      at += width * rows_;
      starts[column + 1] = at;
    }
    if (payload.size() != at) return false;
    values_.assign(places_.size(), std::vector<std::uint64_t>(rows_));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const std::size_t column = places_[i];
      const std::uint64_t base = number(payload, TARE_TABLE_COLUMN_BYTES * column, 8);
      const std::size_t width = (starts[column + 1] - starts[column]) / rows_;
      for (std::size_t row = 0; row < rows_; ++row)
        values_[i][row] = base + number(payload, starts[column] + row * width, width);
    }
    return true;
  }

  static std::uint64_t number(const std::string& bytes, std::size_t at, std::size_t width) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, width);
    return value;
  }

  std::ifstream file_;
  std::size_t columns_ = 0;
  std::vector<std::size_t> places_;
  std::vector<std::vector<std::uint64_t>> values_;
  std::size_t rows_ = 0;
  std::size_t row_ = 0;
};

}  // namespace tare
