// What the layer counts, in a file that is mapped and shared: it is complete up to the last
// collection however the process ends, by exit, _exit, exec, abort or a kill.
//
// The file is PID.SERIAL in the folder that TARE_DELAY_COUNTERS names: a Header of one page, then
// Slots, all numbers 64-bit and of the machine's byte order. tare/memory_managers/layers/delay.py
// reads it. Without the variable the counters are kept in memory of the process.

#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

namespace tare {

using Count = std::uint64_t;
using SharedCount = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedCount) == 8 && SharedCount::is_always_lock_free);

enum Cause { kVolume, kCapacity, kExit, kMemory, kCauses };

// Pauses, also by powers of two of nanoseconds: the first bucket is below 16, the last has no end.
inline constexpr std::size_t kPauseBuckets = 32;
inline constexpr std::size_t kFirstPauseBits = 4;

struct Pauses {
  Count collections;
  Count nanoseconds;
  Count buckets[kPauseBuckets];

  // One pause that was timed, and stands for `weight` of its like.
  void Add(Count pause, Count weight) {
    const auto bits = static_cast<std::size_t>(std::bit_width(pause));
    const std::size_t bucket = std::max(bits, kFirstPauseBits) - kFirstPauseBits;
    collections += weight;
    nanoseconds += weight * pause;
    buckets[std::min(bucket, kPauseBuckets - 1)] += weight;
  }
};

// Of one thread, written by it alone.
struct alignas(64) Slot {
  Pauses pauses;        // of all collections but the small ones
  Pauses small_pauses;  // estimated: of small collections, which are short, one in some is timed
  Count threads;        // that used this slot, one after the other
  Count thread;         // kernel's number of the last one
  Count collections[kCauses];
  Count objects;
  Count bytes;
  Count held_bytes;  // over all objects: bytes that the thread freed while each was held
  Count sampled_objects;
  Count sampled_nanoseconds;  // that the sampled objects were held
  Count longest_nanoseconds;
  Count largest_bytes;     // most bytes that a collection released
  Count released_at_once;  // objects that reached the volume alone: a collection each, which is in
                           // none of the counts since `collections`
  Count spare;
};
static_assert(sizeof(Slot) == 704);

inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kMostSlots = 240;

struct Header {
  static constexpr Count kMagic = 0x33594c4544455254;  // "TREDELY3", little-endian
  static constexpr std::size_t kFileBytes = kHeaderBytes + kMostSlots * sizeof(Slot);
  static constexpr std::size_t kFilledBytes = kFileBytes;

  Count magic;
  Count process;
  Count parent;
  SharedCount slots;              // used so far
  SharedCount uncounted;          // forked processes and threads that could not count
  SharedCount passed_objects;     // freed without quarantine: the thread was about to end, or
                                  // there was no memory for its list
  Count forked;                   // 1: this process began as a fork of the program, 0: by exec
  char names[kHeaderBytes - 56];  // files of the inner malloc and, in the second half, of free
};
static_assert(sizeof(Header) == kHeaderBytes);

inline Slot* SlotsOf(Header* header) {
  return reinterpret_cast<Slot*>(reinterpret_cast<char*>(header) + kHeaderBytes);
}

}  // namespace tare
