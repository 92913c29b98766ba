// The file PID.SERIAL.latency that a timed process leaves: a Header, and behind it Shards. All
// numbers are of the machine's byte order.

#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tare::latency {

inline constexpr std::uint64_t kMagic = 0x3154414C'45524154;  // "TARELAT1"
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kPathBytes = 4096;

// C++'s operators count as malloc, as aligned where they are given an alignment, and as free.
enum Operation : std::uint32_t { kMalloc, kCalloc, kRealloc, kAligned, kFree, kOperations };

// Of what is asked for: up to 16 bytes, up to 32 … up to 1 MiB, and more. What is freed has none.
inline constexpr std::uint32_t kSizes = 18;
inline constexpr std::uint32_t kRows = kFree * kSizes + 1;

inline constexpr std::uint32_t RowOf(Operation operation, std::size_t bytes) {
  if (operation == kFree) return kRows - 1;
  const auto bits = static_cast<std::uint32_t>(std::bit_width(bytes > 16 ? bytes - 1 : 15));
  return operation * kSizes + (bits - 4 < kSizes ? bits - 4 : kSizes - 1);
}

// Of ticks: each below 64 has a bucket, then each power of two has 32. The middle of a bucket is
// within 1/64 of all that lies in it.
inline constexpr std::uint32_t kExact = 64, kInPower = 32, kPowers = 34;
inline constexpr std::uint32_t kBuckets = kExact + kInPower * kPowers;

inline constexpr std::uint32_t BucketOf(std::uint64_t ticks) {
  if (ticks < kExact) return static_cast<std::uint32_t>(ticks);
  const auto power = static_cast<std::uint32_t>(std::bit_width(ticks)) - 1;
  if (power >= 6 + kPowers) return kBuckets - 1;
  const auto part = static_cast<std::uint32_t>(ticks >> (power - 5)) & (kInPower - 1);
  return kExact + (power - 6) * kInPower + part;
}

// What happened within a long call; none of these is the allocator's own work, or that of the
// kernel in a call.
enum Cause : std::uint32_t { kFaulted = 1, kPreempted = 2, kWaited = 4, kCauses = 8 };

using Count = std::atomic<std::uint64_t>;

struct alignas(kPage) Header {
  std::uint64_t magic;
  std::uint32_t pid;
  std::uint32_t parent;
  std::uint32_t forked;  // 1: begun by a fork, not by an exec
  std::uint32_t has_causes;
  std::uint32_t rows;
  std::uint32_t buckets;
  std::uint32_t is_incomplete;  // there was no room for the calls of some threads
  std::uint32_t unused;
  std::uint64_t shard_bytes;
  std::uint64_t empty_ticks;  // between two readings of the clock with nothing between: the least
  std::uint64_t long_ticks;   // a call that takes more is long
  std::uint64_t start_ticks;
  std::uint64_t start_nanoseconds;
  std::uint64_t end_ticks;  // of the process, or of the beginning where it ended without a word
  std::uint64_t end_nanoseconds;
  char inner_malloc[kPathBytes];
  char inner_free[kPathBytes];
};

// The first kAlone threads have one each, which nobody else writes to; others share the rest.
inline constexpr std::uint32_t kShards = 16, kAlone = 8;

struct alignas(kPage) Shard {
  Count longest[kOperations];              // ticks
  Count long_calls[kOperations][kCauses];  // by a set of causes; 0 where causes are not looked at
  Count unused[64 - kOperations * (kCauses + 1)];
  Count calls[kRows][kBuckets];
};

}  // namespace tare::latency
