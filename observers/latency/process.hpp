// What the threads of a process share: the file that they count in, and the allocator underneath.
//
// It lies in memory that a child of a fork finds filled with zeros: so a child counts in a file of
// its own, and no lock is held by a thread that it does not have.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "../recorder/signals.hpp"
#include "clock.hpp"
#include "environment.hpp"
#include "format.hpp"
#include "inner.hpp"
#include "shared_file.hpp"
#include "spin_lock.hpp"
#include "system.hpp"

namespace tare::latency {

inline constexpr const char* kFolderVariable = "TARE_LATENCY_FOLDER";
inline constexpr const char* kCausesVariable = "TARE_LATENCY_CAUSES";
inline constexpr const char* kEnding = ".latency";
inline constexpr std::uint64_t kLongNanoseconds = 20'000;
inline constexpr std::size_t kMostObjects = 512;  // that long calls are told to come from

struct Process {
  SpinLock lock;
  std::atomic<bool> is_off;  // there was no room for its file, or for more of it
  Header* header;
  std::uint32_t threads;
  std::atomic<Shard*> shards[kShards + 1];  // by the number of a thread, which 0 is not
  char path[kPathBytes];                    // longer ones cannot be opened
  // Of the file of long calls: its bytes, and what it tells of by where that starts.
  std::uint64_t called_bytes;
  std::size_t objects;
  std::uintptr_t object_starts[kMostObjects];
};

struct Setting {
  Inner inner;
  char folder[kPathBytes];
  bool has_causes;
  pid_t first;  // which began as a program
  std::uint64_t empty_ticks, long_ticks;
  BothClocks start, begun;
};
constinit inline Setting setting{};
constinit inline Process* process = nullptr;

struct Mine {
  std::uint32_t number;  // from 1 to kShards; 0: not yet
  bool is_inside;        // a call that is timed
  std::uint64_t counted;
};
constinit inline thread_local TARE_INITIAL_EXEC Mine mine{};

inline void Begin() {
  static constinit bool is_beginning = false;
  const KeepErrno keep;
  Inner& inner = setting.inner;
  if (inner.malloc == nullptr) {
    RequireNext("malloc", inner.malloc);
    RequireNext("calloc", inner.calloc);
    RequireNext("realloc", inner.realloc);
    RequireNext("free", inner.free);
  }
  // The dynamic linker allocates before the C library knows its environment.
  if (environ == nullptr || is_beginning) return;
  is_beginning = true;
  const char* const folder = getenv(kFolderVariable);
  if (folder != nullptr) strncpy(setting.folder, folder, sizeof setting.folder - 1);
  setting.has_causes = ReadChoice(kCausesVariable, false, "yes", "no");
  setting.first = getpid();
  counter_is_steady = platform::CounterIsSteady();
  setting.start = ReadBothClocks();
  setting.empty_ticks = LeastBetweenReadings();
  setting.begun = ReadBothClocks();
  const std::uint64_t ticks = setting.begun.ticks - setting.start.ticks;
  const std::uint64_t nanoseconds = setting.begun.nanoseconds - setting.start.nanoseconds;
  setting.long_ticks = nanoseconds == 0 ? kLongNanoseconds : kLongNanoseconds * ticks / nanoseconds;
  void* const pages = MapPages(sizeof(Process));
  if (pages == nullptr || folder == nullptr) return;
  if (madvise(pages, sizeof(Process), MADV_WIPEONFORK) == 0) process = static_cast<Process*>(pages);
}

inline void BeginOnce() {
  if (process == nullptr) [[unlikely]]
    Begin();
}

inline bool OpenFile() {
  constexpr std::size_t kBytes = sizeof(Header) + sizeof(Shard);
  Message path;
  const int fd = FileMayReach(kBytes) ? ClaimName(setting.folder, kEnding, path) : -1;
  auto* const header = static_cast<Header*>(MapFile(fd, 0, kBytes, kBytes));
  if (header == nullptr) return false;
  path << kEnding;
  memcpy(process->path, path.Text(), sizeof process->path);
  const BothClocks& end = setting.begun;
  header->pid = static_cast<std::uint32_t>(getpid());
  header->parent = static_cast<std::uint32_t>(getppid());
  header->forked = getpid() != setting.first;
  header->has_causes = setting.has_causes;
  header->rows = kRows;
  header->buckets = kBuckets;
  header->shard_bytes = sizeof(Shard);
  header->empty_ticks = setting.empty_ticks;
  header->long_ticks = setting.long_ticks;
  header->start_ticks = setting.start.ticks;
  header->start_nanoseconds = setting.start.nanoseconds;
  header->end_ticks = end.ticks;
  header->end_nanoseconds = end.nanoseconds;
  strncpy(header->inner_malloc, FileOf(setting.inner.malloc), kPathBytes - 1);
  strncpy(header->inner_free, FileOf(setting.inner.free), kPathBytes - 1);
  header->magic = kMagic;
  process->header = header;
  process->shards[1].store(reinterpret_cast<Shard*>(header + 1), std::memory_order_release);
  return true;
}

inline Shard* OpenShard(std::uint32_t number) {
  const std::size_t offset = sizeof(Header) + (number - 1) * sizeof(Shard);
  const int fd =
      FileMayReach(offset + sizeof(Shard)) ? open(process->path, O_RDWR | O_CLOEXEC) : -1;
  auto* const shard = static_cast<Shard*>(MapFile(fd, offset, sizeof(Shard), sizeof(Shard)));
  if (shard != nullptr) {
    process->shards[number].store(shard, std::memory_order_release);
  } else {
    process->header->is_incomplete = 1;
    process->is_off.store(true, std::memory_order_relaxed);
  }
  return shard;
}

inline std::uint32_t NextNumber() {
  const std::uint32_t threads = process->threads++;
  return 1 + (threads < kAlone ? threads : kAlone + threads % (kShards - kAlone));
}

// That of this thread; nullptr where nothing is counted.
__attribute__((noinline)) inline Shard* FindShard() {
  BeginOnce();
  if (process == nullptr || process->is_off.load(std::memory_order_relaxed)) return nullptr;
  const KeepErrno keep;
  const recorder::BlockSignals blocked;
  const std::scoped_lock guard(process->lock);
  if (process->header == nullptr) {
    mine.number = 0;  // in the child of a fork it was the parent's
    if (!OpenFile()) {
      process->is_off.store(true, std::memory_order_relaxed);
      return nullptr;
    }
  }
  if (mine.number == 0) mine.number = NextNumber();
  Shard* const shard = process->shards[mine.number].load(std::memory_order_relaxed);
  return shard != nullptr ? shard : OpenShard(mine.number);
}

inline Shard* OwnShard() {
  if (process != nullptr) [[likely]]
    if (Shard* const shard = process->shards[mine.number].load(std::memory_order_acquire);
        shard != nullptr) [[likely]]
      return shard;
  return FindShard();
}

inline void NoteEnd() {
  if (process == nullptr || process->header == nullptr) return;
  const BothClocks now = ReadBothClocks();
  process->header->end_ticks = now.ticks;
  process->header->end_nanoseconds = now.nanoseconds;
}

}  // namespace tare::latency
