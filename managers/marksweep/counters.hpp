// What the layer counts, in a file that is mapped and shared: it is complete however the process
// ends, by exit, _exit, exec, abort or a kill.
//
// The file is PID.SERIAL in the folder that TARE_MARKSWEEP_COUNTERS names: a Header, then Slots up
// to kRecordsOffset, then Records; all numbers 64-bit and of the machine's byte order. Only the
// records that are used have pages on the disk. Without the variable the counters are kept in
// memory of the process.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_file.hpp"
#include "tare/platform/memory.hpp"

namespace tare {

using Count = std::uint64_t;
using SharedCount = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedCount) == 8 && SharedCount::is_always_lock_free);

inline constexpr std::size_t kNamesOffset = 512;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kMostSlots = 192;
inline constexpr std::size_t kMostRecords = 65536;
inline constexpr std::size_t kSlotBytes = 64;
inline constexpr std::size_t kRecordBytes = 128;
inline constexpr std::size_t kRecordsOffset = kHeaderBytes + kMostSlots * kSlotBytes;
static_assert(kRecordsOffset % platform::kLeastPageBytes == 0);

// Written by the thread that collects, but for the numbers of type SharedCount. What threads do
// between collections is in their slots.
struct Header {
  static constexpr Count kMagic = 0x324b52414d455254;  // "TREMARK2", little-endian
  static constexpr std::size_t kFilledBytes = kRecordsOffset;
  static constexpr std::size_t kFileBytes = kRecordsOffset + kMostRecords * kRecordBytes;

  Count magic;
  Count process;
  Count parent;
  Count forked;  // 1: this process began as a fork of the program, 0: by exec
  Count collections;
  Count reclaiming_collections;
  SharedCount uncounted;  // forked processes and threads that could not count
  Count pause_nanoseconds;
  SharedCount longest_nanoseconds;
  Count stop_nanoseconds;
  Count mark_nanoseconds;
  Count sweep_nanoseconds;          // inside of pauses
  SharedCount outside_nanoseconds;  // of sweeping outside of pauses
  Count marked_objects;
  Count marked_bytes;
  Count root_bytes;
  SharedCount swept_objects;  // released by collections; with verify=yes condemned
  SharedCount swept_bytes;
  SharedCount slots;          // used so far
  Count skipped_collections;  // threads did not stop, or /proc could not be read
  SharedCount peak_active_pages_bytes;
  SharedCount peak_requested_bytes;  // as Slot::allocated_bytes
  Count peak_live_marked_bytes;
  Count held_bytes_sum;        // over all freed objects: bytes allocated until their release
  SharedCount false_reclaims;  // condemned objects that the program used again
  Count threads_stopped_max;
  Count records;
  Count records_lost;
  SharedCount metadata_bytes;      // address space of bits, marks and tables
  Count pause_cpu_nanoseconds;     // processor time of the process in its pauses
  Count searched_bytes;            // for pointers: roots, and objects live or marked
  Count first_pauses;              // of the two of a collection beside the program
  Count longest_step_nanoseconds;  // of a thread that swept a part, outside of pauses
  Count beside_nanoseconds;        // processor time of markers beside the program
  Count stopped_instead;           // collections that could not mark beside it
  SharedCount wait_nanoseconds;    // of threads that let a marker go ahead of them
  Count spare[28];
  char names[kHeaderBytes - kNamesOffset];  // files of the inner malloc and, in the second half,
                                            // of the inner free
};
static_assert(sizeof(Header) == kHeaderBytes && offsetof(Header, names) == kNamesOffset);

// Of one thread, written by it alone; sums are over all slots. Bytes are those requested and one
// more, rounded up to 16.
struct alignas(64) Slot {
  Count allocated_objects;
  Count allocated_bytes;
  Count freed_objects;  // released by the program's own free
  Count freed_bytes;
  Count ignored_objects;  // freed by the program but not released then
  Count ignored_bytes;
  Count freed_clock;  // over those: bytes that had been allocated by then, modulo 2^64
  Count bad_frees;    // of no object, or of one that had been freed
};
static_assert(sizeof(Slot) == kSlotBytes);

// kSpun to kStopped are pauses that were put in, see pauses.hpp, and kFirst is the first of the two
// of a collection beside the program, whose last is kLast: no collections.
enum RecordKind : Count {
  kReclaimed = 1,
  kHeapLimit = 2,
  kMallocFailed = 4,
  kSpun = 8,
  kSlept = 16,
  kStopped = 32,
  kFirst = 64,
  kLast = 128
};

// Of one collection, or of a pause that was put in. What a collection releases outside of its pause
// is counted here as well.
struct Record {
  Count begin = 0;  // of the pause, on CLOCK_MONOTONIC, in nanoseconds
  Count end = 0;
  Count marked_objects = 0;
  Count marked_bytes = 0;
  Count swept_objects = 0;
  Count swept_bytes = 0;
  Count active_pages_bytes = 0;  // after it
  Count kind = 0;
  Count released = 0;         // when the thread that collected had released all and went on
  Count cpu_nanoseconds = 0;  // processor time of the process in the pause
  Count thread = 0;           // that collected, or that paused
  Count spare[5] = {};
};
static_assert(sizeof(Record) == kRecordBytes);

template <typename T>
T* At(Header* header, std::size_t offset) {
  return reinterpret_cast<T*>(reinterpret_cast<char*>(header) + offset);
}

inline Slot* SlotsOf(Header* header) { return At<Slot>(header, kHeaderBytes); }

// Where the next record goes; nullptr when there is no place or no page for it.
inline Record* NextRecord(Header* header) {
  if (header->records == kMostRecords) return nullptr;
  Record* const record = At<Record>(header, kRecordsOffset) + header->records;
  // A page that the disk cannot hold would be a SIGBUS when it is touched.
  const bool is_first_in_page =
      header->records == 0 || reinterpret_cast<std::uintptr_t>(record) % platform::PageBytes() == 0;
  if (is_first_in_page && !platform::Populate(record, sizeof *record)) return nullptr;
  return record;
}

}  // namespace tare
