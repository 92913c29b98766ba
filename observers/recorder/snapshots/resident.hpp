// The pages of this process that are resident, swapped, or guard a stack, as runs in a snapshot.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "file.hpp"
#include "format.hpp"
#include "tare/platform/maps.hpp"
#include "tare/platform/memory.hpp"
#include "tare/platform/pagemap.hpp"

namespace tare::recorder::snapshot {

// False for kernels without the scan.
inline bool ScanPages(Writer& writer, const platform::Pagemap& pagemap) {
  static constinit platform::PageRange ranges[512];
  const std::uint64_t end = platform::AddressEnd();
  for (std::uint64_t at = 0; at < end;) {
    const int found = pagemap.Scan(at, end, ranges, std::size(ranges));
    if (found < 0) return false;
    for (int i = 0; i < found; ++i) {
      const platform::PageRange& range = ranges[i];
      std::uint64_t flags = 0;
      if (range.IsHuge()) flags |= kHuge;
      if (range.IsZeros()) flags |= kZeros;
      if (range.IsSwapped()) flags |= kSwapped;
      if (range.IsGuard()) flags |= kGuard;
      const Run run{range.start, (range.end - range.start) | flags};
      writer.Put(kResident, &run, sizeof run);
    }
  }
  return true;
}

// Joins entries of pagemap to runs.
class PageRuns {
 public:
  explicit PageRuns(Writer& writer) : writer_(writer) {}

  void Add(std::uint64_t address, platform::PageEntry entry) {
    if (!entry.IsPresent() && !entry.IsSwapped()) return;
    std::uint64_t flags = 0;
    if (entry.IsSwapped()) {
      flags = kSwapped;
    } else if (!entry.IsOfFileOrShared() && !entry.IsExclusive()) {
      flags = kZeros;  // or shared with a parent or child since a fork
    }
    if (address != start_ + bytes_ || flags != flags_) {
      Finish();
      start_ = address;
      flags_ = flags;
    }
    bytes_ += platform::PageBytes();
  }

  void Finish() {
    const Run run{start_, bytes_ | flags_};
    if (bytes_ > 0) writer_.Put(kResident, &run, sizeof run);
    bytes_ = 0;
  }

 private:
  Writer& writer_;
  std::uint64_t start_ = 0, bytes_ = 0, flags_ = 0;
};

// Vast reservations are left out: to read their entries takes too long, and what is resident there
// shows as missing.
inline bool IsVast(const platform::MapsRow& row, bool is_accessible) {
  constexpr std::uint64_t kVast = std::uint64_t{64} << 30, kVastWithoutAccess = 1 << 30;
  return row.end - row.start > (is_accessible ? kVast : kVastWithoutAccess);
}

// For kernels without the scan.
inline void ReadPages(Writer& writer, const platform::Pagemap& pagemap) {
  const std::size_t page = platform::PageBytes();
  PageRuns runs(writer);
  platform::MapsReader maps;
  for (platform::MapsRow row; maps.Next(row);) {
    if (row.end > platform::AddressEnd() ||
        IsVast(row, row.readable || row.writable || row.executable))
      continue;
    platform::PageEntry entries[1024];
    for (std::uint64_t at = row.start; at < row.end;) {
      const std::size_t wanted = std::min<std::size_t>((row.end - at) / page, std::size(entries));
      const std::size_t count = pagemap.Read(at / page, entries, wanted);
      if (count == 0) break;
      for (std::size_t i = 0; i < count; ++i) runs.Add(at + i * page, entries[i]);
      at += count * page;
    }
  }
  runs.Finish();
}

inline void PutResident(Writer& writer) {
  const platform::Pagemap pagemap;
  if (pagemap.IsOpen() && !ScanPages(writer, pagemap)) ReadPages(writer, pagemap);
}

}  // namespace tare::recorder::snapshot
