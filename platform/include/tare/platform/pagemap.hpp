// What the kernel tells of the pages of this process, by its pagemap. Nothing here allocates.

#pragma once

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "tare/platform/proc_file.hpp"

namespace tare::platform {

// Documentation/admin-guide/mm/pagemap.rst of Linux.
struct PageEntry {
  std::uint64_t word;

  bool IsPresent() const { return Has(63); }
  bool IsSwapped() const { return Has(62) && !IsGuard(); }
  bool IsOfFileOrShared() const { return Has(61); }
  bool IsGuard() const { return Has(58); }  // of MADV_GUARD_INSTALL; it has bit 62, too
  bool IsExclusive() const { return Has(56); }

 private:
  bool Has(unsigned bit) const { return (word >> bit & 1) != 0; }
};

struct PageRange {
  std::uint64_t start, end, categories;

  bool IsSwapped() const { return (categories & kSwapped) != 0 && !IsGuard(); }
  bool IsZeros() const { return (categories & kZeros) != 0; }
  bool IsHuge() const { return (categories & kHuge) != 0; }
  bool IsGuard() const { return (categories & kGuard) != 0; }

  enum : std::uint64_t {
    kWritten = 1 << 1,
    kPresent = 1 << 3,
    kSwapped = 1 << 4,
    kZeros = 1 << 5,
    kHuge = 1 << 6,
    kGuard = 1 << 8
  };
};

class Pagemap {
 public:
  bool IsOpen() const { return file_.IsOpen(); }

  // The entries from that of page number `first` on; how many could be read.
  std::size_t Read(std::uint64_t first, PageEntry* entries, std::size_t most) const {
    const long bytes = file_.ReadAt(first * sizeof *entries, entries, most * sizeof *entries);
    return bytes <= 0 ? 0 : static_cast<std::size_t>(bytes) / sizeof *entries;
  }

  // Resident, swapped and guard pages from `start` to `end` (Linux 6.7 and later; before 6.16 guard
  // pages look swapped): how many ranges there are, and `start` is where the next scan goes on.
  // Negative where there is no scan.
  int Scan(std::uint64_t& start, std::uint64_t end, PageRange* ranges, std::size_t most) const {
    ScanRequest request{};
    request.any_of = PageRange::kPresent | PageRange::kSwapped;
    request.returned =
        PageRange::kPresent | PageRange::kSwapped | PageRange::kZeros | PageRange::kHuge;
    ScanRequest with_guards = request;
    with_guards.returned |= PageRange::kGuard;
    const int found = Scan(with_guards, start, end, ranges, most);
    return found >= 0 ? found : Scan(request, start, end, ranges, most);
  }

  // The same of pages that were written to since they are watched (see write_watch.hpp); of those
  // that are not watched all count as written to.
  int ScanWritten(std::uint64_t& start, std::uint64_t end, PageRange* ranges,
                  std::size_t most) const {
    ScanRequest request{};
    request.all_of = request.returned = PageRange::kWritten;
    return Scan(request, start, end, ranges, most);
  }

  // Those that were written to, but not those that are not watched; from now on they count as not
  // written to. Pages that are not there stay so: the kernel would note of each that it is watched.
  int TakeWritten(std::uint64_t& start, std::uint64_t end, PageRange* ranges,
                  std::size_t most) const {
    constexpr std::uint64_t kWatchMatching = 1;
    ScanRequest request{};
    request.flags = kWatchMatching;
    request.all_of = request.returned = PageRange::kWritten;
    request.any_of = PageRange::kPresent | PageRange::kSwapped;
    return Scan(request, start, end, ranges, most);
  }

 private:
  // struct pm_scan_arg of linux/fs.h.
  struct ScanRequest {
    std::uint64_t size, flags, start, end, walk_end, ranges, ranges_count, most_pages, inverted,
        all_of, any_of, returned;
  };

  int Scan(ScanRequest& request, std::uint64_t& start, std::uint64_t end, PageRange* ranges,
           std::size_t most) const {
    constexpr unsigned long kScan = _IOWR('f', 16, ScanRequest);
    request.size = sizeof request;
    request.start = start;
    request.end = end;
    request.ranges = reinterpret_cast<std::uint64_t>(ranges);
    request.ranges_count = most;
    const auto found = static_cast<int>(syscall(SYS_ioctl, file_.Descriptor(), kScan, &request));
    if (found < 0 || request.walk_end <= start) return -1;
    start = request.walk_end;
    return found;
  }

  const ProcFile file_{"/proc/thread-self/pagemap"};
};

}  // namespace tare::platform
