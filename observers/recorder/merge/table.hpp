// Writes a table of a raw recording; docs/trace.md describes the format,
// tare/heap_traces/recording.py reads it.

#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "output.hpp"

namespace tare::recorder {

template <std::size_t kColumns>
class Table {
 public:
  using Row = std::array<std::uint64_t, kColumns>;

  // `columns` are names with blanks between them.
  Table(const std::filesystem::path& stem, const std::string& name, const std::string& columns)
      : file_(stem.string() + "." + name) {
    for (auto& column : columns_) column.reserve(kBlockRows);
    const std::string line = "tare-table 1 " + name + " " + columns + "\n";
    file_.Write(line.data(), line.size());
  }

  void Add(const Row& row) {
    for (std::size_t i = 0; i < kColumns; ++i) columns_[i].push_back(row[i]);
    if (columns_[0].size() == kBlockRows) WriteBlock();
  }

  void Finish() {
    if (!columns_[0].empty()) WriteBlock();
    file_.Close();
  }

 private:
  static constexpr std::size_t kBlockRows = 1 << 14;
  static constexpr std::uint32_t kMagic = 0x324B4C42;

  void Append(std::uint64_t number, unsigned bytes) {
    const std::size_t end = payload_.size();
    payload_.resize(end + bytes);
    memcpy(payload_.data() + end, &number, bytes);
  }

  void WriteBlock() {
    std::array<std::uint64_t, kColumns> bases;
    std::array<unsigned, kColumns> widths;
    payload_.clear();
    for (std::size_t i = 0; i < kColumns; ++i) {
      const auto [least, most] = std::minmax_element(columns_[i].begin(), columns_[i].end());
      bases[i] = *least;
      widths[i] = (static_cast<unsigned>(std::bit_width(*most - *least)) + 7) / 8;
      Append(bases[i], 8);
      Append(widths[i], 8);
    }
    for (std::size_t i = 0; i < kColumns; ++i) PackColumn(columns_[i], bases[i], widths[i]);
    const auto rows = static_cast<std::uint32_t>(columns_[0].size());
    const std::array<std::uint32_t, 4> head = {
        kMagic, rows, static_cast<std::uint32_t>(payload_.size()), Checksum()};
    file_.Write(head.data(), sizeof head);
    file_.Write(payload_.data(), payload_.size());
    for (auto& column : columns_) column.clear();
  }

  void PackColumn(const std::vector<std::uint64_t>& column, std::uint64_t base, unsigned width) {
    const std::size_t begin = payload_.size();
    // Each number is stored whole, and the next over what it has too much.
    payload_.resize(begin + column.size() * width + 8);
    std::uint8_t* at = payload_.data() + begin;
    for (const std::uint64_t number : column) {
      const std::uint64_t rest = number - base;
      memcpy(at, &rest, sizeof rest);
      at += width;
    }
    payload_.resize(begin + column.size() * width);
  }

  std::uint32_t Checksum() const {
    std::uint64_t sum = 0;
    std::size_t at = 0;
    for (; at + 8 <= payload_.size(); at += 8) {
      std::uint64_t word;
      memcpy(&word, payload_.data() + at, 8);
      sum += word;
    }
    std::uint64_t last = 0;
    memcpy(&last, payload_.data() + at, payload_.size() - at);
    sum += last;
    return static_cast<std::uint32_t>(sum ^ (sum >> 32));
  }

  Output file_;
  std::array<std::vector<std::uint64_t>, kColumns> columns_;
  std::vector<std::uint8_t> payload_;
};

}  // namespace tare::recorder
