// What the kernel tells of the address space: mappings, and which of their pages hold data of the
// process.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "ranges.hpp"
#include "tare/platform/maps.hpp"
#include "tare/platform/memory.hpp"
#include "tare/platform/pagemap.hpp"

namespace tare {

struct Mapping {
  Address from, to;
  bool readable, writable;
  bool of_file;
};

// The private mappings of this process, sorted: those that can be written to, and those that can
// only be read and are the program's own.
class Mappings {
 public:
  void MapList() { list_.Map(); }

  // False when they cannot be read.
  bool Read() { return (Ask() || ReadText()) && !list_.Empty(); }

  const Mapping* Of(Address address) {
    const Mapping* const found =
        std::upper_bound(list_.begin(), list_.end(), address,
                         [](Address at, const Mapping& mapping) { return at < mapping.to; });
    return found != list_.end() && found->from <= address ? found : nullptr;
  }

  const Mapping* begin() { return list_.begin(); }
  const Mapping* end() { return list_.end(); }

 private:
  using Query = platform::MapsQuery;

  bool Ask() {
    list_.Clear();
    const Query query;
    platform::MapsRow row;
    Query::Answer answer;
    for (Address at = 0; (answer = query.Next(Query::kWritable, at, row)) == Query::Answer::kFound;
         at = row.end)
      if (!Add(row)) return false;
    if (answer != Query::Answer::kNone) return false;
    const std::size_t writable = list_.Size();
    // By address: the list of mappings may grow, which adds a range.
    for (Address done = 0; ranges.FirstEndingAfter(done) != ranges.End();) {
      const Ranges::Range range = *ranges.FirstEndingAfter(done);
      done = range.to;
      if (range.owner != Owner::kProgram) continue;
      for (Address at = range.from;
           at < range.to && query.Next(Query::kReadable, at, row) == Query::Answer::kFound &&
           row.start < range.to;
           at = row.end)
        if (!row.writable && !Add(row)) return false;
    }
    if (list_.Size() != writable) SortOnce();
    return true;
  }

  bool ReadText() {
    static unsigned char block[32768];
    list_.Clear();
    platform::MapsReader maps(block);
    bool good = true;
    for (platform::MapsRow row; maps.Next(row);) good &= Add(row);
    return good && !maps.HasFailed();
  }

  bool Add(const platform::MapsRow& row) {
    return !row.is_private ||
           list_.Add({row.start, row.end, row.readable, row.writable, row.has_file});
  }

  void SortOnce() {
    std::sort(list_.begin(), list_.end(),
              [](const Mapping& a, const Mapping& b) { return a.from < b.from; });
    std::size_t kept = 1;
    for (const Mapping& each : list_)
      if (each.from != list_[kept - 1].from) list_[kept++] = each;
    list_.Shorten(kept);
  }

  OwnArray<Mapping> list_;
};

// Calls visit(from, to) for the parts of a range whose pages hold data of the process: pages that
// were never written to hold none, nor do those that are still as in their file, and guard pages
// (MADV_GUARD_INSTALL) may not be read. Without the kernel's word for it the range is visited as it
// is.
class PresentPages {
 public:
  template <typename Visit>
  void Each(Address from, Address to, Visit visit) {
    const std::size_t page = platform::PageBytes();
    if (!pagemap_) pagemap_.emplace();
    Address begin = 0;
    for (Address at = platform::PageDown(from); at < to;) {
      const std::size_t wanted =
          std::min<std::size_t>(kEntries, (platform::PageUp(to) - at) / page);
      const std::size_t read = pagemap_->Read(at / page, entries_, wanted);
      for (std::size_t i = 0; i < wanted; ++i, at += page) {
        const bool holds_data = i >= read || HoldsData(entries_[i]);
        if (holds_data && begin == 0) begin = at;
        if (!holds_data && begin != 0) visit(std::max(begin, from), at);
        if (!holds_data) begin = 0;
      }
    }
    if (begin != 0) visit(std::max(begin, from), to);
  }

  // Behind the last guard page from `from` to `at`, or `from`: there a stack ends, while its
  // mapping can be one with others.
  Address BehindGuard(Address from, Address at) {
    const std::size_t page = platform::PageBytes();
    if (!pagemap_) pagemap_.emplace();
    for (Address end = platform::PageDown(at); end > from;) {
      const Address begin = end - std::min<std::size_t>(end - from, kEntries * page);
      const std::size_t read = pagemap_->Read(begin / page, entries_, (end - begin) / page);
      for (std::size_t i = read; i > 0; --i)
        if (entries_[i - 1].IsGuard()) return begin + i * page;
      end = begin;
    }
    return from;
  }

 private:
  static constexpr std::size_t kEntries = 512;
  static inline platform::PageEntry entries_[kEntries];

  static bool HoldsData(platform::PageEntry entry) {
    return (entry.IsPresent() || entry.IsSwapped()) && !entry.IsOfFileOrShared();
  }

  std::optional<platform::Pagemap> pagemap_;
};

}  // namespace tare
