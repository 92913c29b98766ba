// A snapshot is a file PID.SERIAL.snapshot.NAME of parts, in a folder of its own. A part is a Part
// and so many bytes; parts of one kind may come in pieces, in their order, and the last one of a
// whole file is kEnd. NAME is `peak` or a number, in the order of time.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::recorder::snapshot {

inline constexpr std::uint64_t kMagic = 0x31504E53'45524154;  // "TARESNP1"

enum Kind : std::uint32_t {
  kMoment = 1,  // a Moment: first without its end, last with it
  kMaps,        // the text of /proc/self/maps
  kRollup,      // the text of /proc/self/smaps_rollup
  kResident,    // Runs
  kOwn,         // Ranges: memory of the recorder
  kMapped,      // Mappings that the program or a library made, by any call, the latest last
  kThreads,     // addresses of threads' control blocks, which end their stacks
  kStart,       // Ranges of nameless memory before the allocator's first operation
  kFolder,      // the path of the folder of the recording, whose mappings are the recorder's
  kRetained,    // Ranges: objects that the program freed, and a layer retains
  kEnd,
};

struct Part {
  std::uint32_t kind;
  std::uint32_t bytes;
};

// Nanoseconds are those of the process: from `origin` on, which is CLOCK_MONOTONIC's.
struct Moment {
  std::uint64_t magic;
  std::uint64_t origin;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t forked;        // 1: begun by a fork, not by an exec
  std::uint64_t spent;         // nanoseconds on all snapshots before this one
  std::uint64_t lowest_ratio;  // in 1/1000: a new peak is so much over the one before
};

struct Range {
  std::uint64_t start;
  std::uint64_t bytes;
};

struct Run {
  std::uint64_t start;
  std::uint64_t bytes_and_flags;  // whole pages; below a page, flags
};
enum Flag : std::uint64_t { kZeros = 1, kSwapped = 2, kHuge = 4, kGuard = 8 };

struct Mapping {
  std::uint64_t start;
  std::uint64_t bytes;
  std::uint64_t call;  // return address of the call
};

}  // namespace tare::recorder::snapshot
