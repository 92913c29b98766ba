// What the shims count, in a file that is mapped and shared: it is complete however the process
// ends, by exit, _exit, exec, abort or a kill.
//
// The file is PID.SERIAL in the folder that TARE_REGIONS_COUNTERS names: one Header, all numbers
// 64-bit and of the machine's byte order. tare/memory_managers/layers/regions.py reads it. Without
// the variable the counters are kept in memory of the process.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tare::regions {

using Count = std::uint64_t;
using SharedCount = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedCount) == 8 && SharedCount::is_always_lock_free);

enum Kind { kApr, kTalloc, kObstack, kKinds };

// How many there were, are now, and were at most at a time.
struct Level {
  SharedCount total;
  SharedCount now;
  SharedCount most;

  void Add(Count more) {
    total.fetch_add(more, std::memory_order_relaxed);
    const Count level = now.fetch_add(more, std::memory_order_relaxed) + more;
    Count seen = most.load(std::memory_order_relaxed);
    while (seen < level && !most.compare_exchange_weak(seen, level, std::memory_order_relaxed)) {
    }
  }
  void Subtract(Count less) { now.fetch_sub(less, std::memory_order_relaxed); }
};

struct KindCounts {
  Level regions;  // without statistics only the total, and of the rest nothing
  Level objects;
  Level bytes;  // as the program asked
  SharedCount cleared;
  SharedCount freed_objects;  // one by one
};
static_assert(sizeof(KindCounts) == 11 * 8);

struct Header {
  static constexpr Count kMagic = 0x314e474552455254;  // "TREREGN1", little-endian
  static constexpr std::size_t kFileBytes = 4096;
  static constexpr std::size_t kFilledBytes = kFileBytes;
  static constexpr std::size_t kNamesOffset = 512;

  Count magic;
  Count process;
  Count parent;
  Count forked;           // 1: this process began as a fork of the program, 0: by exec
  SharedCount uncounted;  // forked processes that could not count
  KindCounts kinds[kKinds];
  Level all_objects;  // of all kinds together
  Level all_bytes;
  char spare[kNamesOffset - 5 * 8 - kKinds * sizeof(KindCounts) - 2 * sizeof(Level)];
  char names[kFileBytes - kNamesOffset];  // files of malloc and, in the second half, of free
};
static_assert(sizeof(Header) == Header::kFileBytes);

}  // namespace tare::regions
