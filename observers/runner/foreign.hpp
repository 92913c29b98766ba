// Which memory was mapped by files other than the manager's, and how much of it is resident.
//
// Nothing here allocates. The lock is given up where its holder does not come back: a handler may
// have interrupted it, and what is lost then is a figure and not the program.

#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tare/platform/memory.hpp"
#include "tare/platform/pagemap.hpp"

namespace tare::runner {

constexpr std::size_t kMostFiles = 32, kFileBytes = 512;

// The files that mapped memory, by their place in the process.
class Files {
 public:
  static constexpr std::uint32_t kLost = kMostFiles - 1;  // all others
  std::uint32_t NumberOf(std::uintptr_t start, const char* name) {
    for (std::uint32_t number = 0; number < used_; ++number)
      if (starts_[number] == start && strncmp(names_[number], name, kFileBytes - 1) == 0)
        return number;
    if (used_ == kLost) return kLost;
    starts_[used_] = start;
    strncpy(names_[used_], name, kFileBytes - 1);
    return used_++;
  }
  // Empty for the program itself.
  const char* Name(std::uint32_t number) const { return names_[number]; }

 private:
  std::uint32_t used_ = 0;
  std::uintptr_t starts_[kMostFiles] = {};
  char names_[kMostFiles][kFileBytes] = {};
};

struct Range {
  std::uintptr_t start, end;
  std::uint32_t file;
};

// Disjoint ranges, the highest first: a kernel maps downwards, so most come last.
class Ranges {
 public:
  bool IsFull() const { return is_full_; }
  std::size_t Size() const { return used_; }
  // 0 is the highest.
  const Range& operator[](std::size_t place) const { return ranges_[place]; }
  // The first that ends at `address` or below it, all before lying above.
  std::size_t Below(std::uintptr_t address) const {
    std::size_t first = 0, count = used_;
    while (count > 0) {
      const std::size_t half = count / 2;
      if (ranges_[first + half].end > address) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first;
  }

  // Whether there was any of it.
  bool Remove(std::uintptr_t start, std::uintptr_t end) {
    // Those that reach beyond `start`, from the lowest of them upwards.
    bool had = false;
    for (std::size_t place = Below(start); place > 0 && ranges_[place - 1].start < end; --place) {
      Range& range = ranges_[place - 1];
      had = true;
      const Range above{end, range.end, range.file};
      if (range.start < start && range.end > end) {
        range.end = start;
        Insert(place - 1, above);
        return true;
      }
      if (range.start < start)
        range.end = start;
      else if (range.end > end)
        range.start = end;
      else
        Take(place - 1);
    }
    return had;
  }
  void Add(std::uintptr_t start, std::uintptr_t end, std::uint32_t file) {
    const std::size_t place = Below(start);
    // One that grows in pieces stays one.
    if (place > 0 && ranges_[place - 1].start == end && ranges_[place - 1].file == file)
      ranges_[place - 1].start = start;
    else if (place < used_ && ranges_[place].end == start && ranges_[place].file == file)
      ranges_[place].end = end;
    else
      Insert(place, {start, end, file});
  }

 private:
  static constexpr std::size_t kMost = 65536;

  void Insert(std::size_t place, const Range& range) {
    if (used_ == kMost) {
      is_full_ = true;
      return;
    }
    memmove(&ranges_[place + 1], &ranges_[place], (used_ - place) * sizeof *ranges_);
    ranges_[place] = range;
    ++used_;
  }
  void Take(std::size_t place) {
    memmove(&ranges_[place], &ranges_[place + 1], (used_ - place - 1) * sizeof *ranges_);
    --used_;
  }

  std::size_t used_ = 0;
  bool is_full_ = false;
  Range ranges_[kMost] = {};
};

// Bytes of the pages from `start` to `end` that are resident or swapped out.
class Resident {
 public:
  std::uint64_t operator()(std::uintptr_t start, std::uintptr_t end) {
    if (scans_) {
      std::uint64_t bytes = 0, from = start;
      while (from < end) {
        platform::PageRange found[kAtOnce];
        const int count = pagemap_.Scan(from, end, found, kAtOnce);
        if (count < 0) break;
        for (int number = 0; number < count; ++number)
          if (!found[number].IsZeros()) bytes += found[number].end - found[number].start;
      }
      if (from >= end) return bytes;
      scans_ = false;
    }
    return Listed(start, end);
  }

 private:
  static constexpr std::size_t kAtOnce = 64;
  static constexpr std::uintptr_t kMostListed = std::uintptr_t{64} << 30;

  // Where the kernel has no scan; of the first 64 GiB, so that a reservation takes no seconds.
  static std::uint64_t Listed(std::uintptr_t start, std::uintptr_t end) {
    std::uint64_t pages = 0;
    if (end - start > kMostListed) end = start + kMostListed;
    for (std::uintptr_t from = start; from < end;) {
      unsigned char present[4096];
      const std::size_t count = (end - from) / platform::PageBytes() < sizeof present
                                    ? static_cast<std::size_t>((end - from) / platform::PageBytes())
                                    : sizeof present;
      if (count == 0 ||
          mincore(reinterpret_cast<void*>(from), count * platform::PageBytes(), present) != 0)
        break;
      for (std::size_t page = 0; page < count; ++page) pages += present[page] & 1;
      from += count * platform::PageBytes();
    }
    return pages * platform::PageBytes();
  }

  platform::Pagemap pagemap_;
  bool scans_ = true;
};

// Gives up after a while.
class PatientLock {
 public:
  bool Lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries == kTries) return false;
      sched_yield();
    }
    return true;
  }
  bool IsHeld() const { return held_.load(std::memory_order_relaxed); }
  void Unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kTries = 100'000;
  std::atomic<bool> held_ = false;
};

}  // namespace tare::runner
