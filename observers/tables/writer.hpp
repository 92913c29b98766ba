// Writes a table of a raw recording; tare/heap_traces/recording.py reads it.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "block.h"
#include "output.hpp"

namespace tare {

template <std::size_t kColumns>
class TableWriter {
 public:
  using Row = std::array<std::uint64_t, kColumns>;

  // `columns` are names with blanks between them.
  TableWriter(const std::filesystem::path& path, const std::string& name,
              const std::string& columns)
      : file_(path.string()),
        values_(kColumns * kApart),
        block_(TARE_TABLE_BLOCK_BYTES(kColumns, kBlockRows)) {
    file_.Write("tare-table 1 " + name + " " + columns + "\n");
  }

  void Add(const Row& row) {
    for (std::size_t i = 0; i < kColumns; ++i) values_[i * kApart + rows_] = row[i];
    if (++rows_ == kBlockRows) WriteBlock();
  }

  void Finish() {
    if (rows_ != 0) WriteBlock();
    file_.Close();
  }

 private:
  static constexpr std::size_t kBlockRows = 1 << 14;
  // So that a row's values do not fall into one set of the processor's cache.
  static constexpr std::size_t kApart = kBlockRows + 8;

  void WriteBlock() {
    file_.Write(block_.data(),
                tare_table_block(values_.data(), kApart, kColumns, rows_, block_.data()));
    rows_ = 0;
  }

  Output file_;
  std::vector<std::uint64_t> values_;
  std::vector<char> block_;
  std::size_t rows_ = 0;
};

}  // namespace tare
