// What the layer counts, in a file that is mapped and shared: it is complete up to the last
// collection however the process ends, by exit, _exit, exec, abort or a kill.
//
// The file is PID.SERIAL in the folder that TARE_DELAY_COUNTERS names: a Header of one page, then
// Slots, all numbers 64-bit and of the machine's byte order. docs/delay.md describes it, and
// tare/delay.py reads it. Without the variable the counters are kept in memory of the process.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "system.hpp"

namespace tare {

using Count = std::uint64_t;
using SharedCount = std::atomic<std::uint64_t>;
static_assert(sizeof(SharedCount) == 8 && SharedCount::is_always_lock_free);

enum Cause { kVolume, kCapacity, kExit, kMemory, kCauses };

// Of one thread, written by it alone. `small` collections are short, and timed one in some.
struct Slot {
  Count threads;  // that used this slot, one after the other
  Count thread;   // kernel's number of the last one
  Count collections[kCauses];
  Count objects;
  Count bytes;
  Count held_bytes;  // over all objects: bytes that the thread freed while each was held
  Count sampled_objects;
  Count sampled_nanoseconds;  // that the sampled objects were held
  Count timed_collections;
  Count timed_nanoseconds;
  Count small_collections;
  Count small_timed;
  Count small_nanoseconds;
  Count longest_nanoseconds;
  Count largest_bytes;     // most bytes that a collection released, but for the following
  Count lone_collections;  // of one object that reached the volume alone; in no count above
  Count lone_bytes;
  Count spare[12];
};
static_assert(sizeof(Slot) == 256);

inline constexpr Count kMagic = 0x31594c4544455254;  // "TREDELY1", little-endian
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kMostSlots = 240;
inline constexpr std::size_t kCountersBytes = kHeaderBytes + kMostSlots * sizeof(Slot);

struct Header {
  Count magic;
  Count process;
  Count parent;
  SharedCount slots;              // used so far
  SharedCount uncounted;          // forked processes and threads that could not count
  SharedCount passed_objects;     // freed without quarantine: the thread was about to end, or
                                  // there was no memory for its list
  Count forked;                   // 1: this process began as a fork of the program, 0: by exec
  char inner[kHeaderBytes - 56];  // file that serves the inner malloc, and after a 0 that of free
};
static_assert(sizeof(Header) == kHeaderBytes);

inline Slot* SlotsOf(Header* header) {
  return reinterpret_cast<Slot*>(reinterpret_cast<char*>(header) + kHeaderBytes);
}

// A new file in `folder`, or -1. Names do not clash: exec keeps the number of the process.
inline int CreateFile(const char* folder) {
  rlimit limit{};
  // Beyond this limit the kernel would send SIGXFSZ.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kCountersBytes) return -1;
  for (Count serial = 0; serial < 10000; ++serial) {
    Message path;
    path << folder << "/" << static_cast<Count>(getpid()) << "." << serial;
    const int fd = open(path.Text(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// The counters of this process, in a file in `folder`; nullptr when that cannot be had. The
// descriptor is closed again: a program may close or count descriptors that it did not open.
inline Header* MapCounters(const char* folder) {
  const int fd = CreateFile(folder);
  if (fd < 0) return nullptr;
  // A page that the disk cannot hold would be a SIGBUS when it is touched.
  void* const pages = posix_fallocate(fd, 0, kCountersBytes) == 0
                          ? mmap(nullptr, kCountersBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                          : MAP_FAILED;
  close(fd);
  return pages == MAP_FAILED ? nullptr : static_cast<Header*>(pages);
}

// As MapCounters, or in memory of the process where they are lost at its end; nullptr without any.
// `reported` says whether all is as asked.
inline Header* OpenCounters(const char* folder, bool forked, bool& reported) {
  Header* header = folder == nullptr ? nullptr : MapCounters(folder);
  reported = header != nullptr || folder == nullptr;
  if (header == nullptr) header = static_cast<Header*>(MapPages(kCountersBytes));
  if (header == nullptr) return nullptr;
  header->process = static_cast<Count>(getpid());
  header->parent = static_cast<Count>(getppid());
  header->forked = forked;
  header->magic = kMagic;
  return header;
}

}  // namespace tare
