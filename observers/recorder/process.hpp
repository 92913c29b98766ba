// What the threads of a process share: where it records to, and the allocator underneath.
//
// All that belongs to one process lies in memory that a child of a fork finds filled with zeros. So
// a child, however it came to be, begins a recording of its own with its first event, and no lock
// is ever held by a thread that it does not have.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "clock.hpp"
#include "environment.hpp"
#include "format.hpp"
#include "inner.hpp"
#include "shared_file.hpp"
#include "signals.hpp"
#include "snapshots/snapshots.hpp"
#include "spin_lock.hpp"
#include "system.hpp"
#include "tare/platform/memory.hpp"

namespace tare::recorder {

inline constexpr std::size_t kPart = 64 << 10;  // of a file, in memory at a time

// Zeros, here and in a child of a fork; nullptr when they cannot be had.
inline void* MapOwn(std::size_t bytes) {
  void* const pages = MapPages(bytes);
  if (pages != nullptr && madvise(pages, bytes, MADV_WIPEONFORK) != 0) {
    munmap(pages, bytes);
    return nullptr;
  }
  return pages;
}

enum class Stage : std::uint32_t { kFresh, kOpening, kOpen, kOff };

struct Thread;
struct Stacks;
Stacks* MapStacks();

struct Process {
  std::atomic<Stage> stage;
  Header* header;
  Stacks* stacks;         // nullptr: only births and deaths are recorded
  Stacks* native_stacks;  // the same, where all code is native; else nullptr
  char stem[kPathBytes];  // of the names of its files
  std::atomic<std::uint64_t> events_end;
  std::atomic<std::size_t> in_blocks;  // bytes of blocks that threads write to
  std::atomic<std::uint32_t> threads;
  SpinLock lock;  // of the rest
  Thread* unused_threads;
  Thread* last_thread;
  sigset_t blocked_signals;  // of who has last_thread
};

// As the environment and the dynamic linker have it; the same in a child.
struct Setting {
  Inner inner;
  const char* folder = nullptr;
  bool has_stacks = false;
  bool has_python = false;
  std::size_t sample_bytes = 0;
  bool was_open = false;  // in this process or an ancestor that ran the same program
};

constinit inline Setting setting;
constinit inline Process* process = nullptr;

inline Message FileOfProcess(const char* ending) {
  Message path;
  path << process->stem << ending;
  return path;
}

inline void Lose(Loss reason) {
  if (process->header == nullptr) return;
  std::uint32_t nothing = kNothingLost;
  __atomic_compare_exchange_n(&process->header->loss, &nothing, static_cast<std::uint32_t>(reason),
                              false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

// `bytes` more at the end of a file, as a mapping that the kernel writes to the file however the
// process ends; nullptr where there is no room.
inline void* MapPart(const char* path, std::uint64_t offset, std::size_t bytes) {
  if (!FileMayReach(offset + bytes)) return nullptr;
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  void* const pages = MapFile(fd, offset, bytes, bytes);
  if (pages != nullptr) platform::Populate(pages, bytes);
  return pages;
}

inline bool ClaimStem() {
  Message stem;
  const int fd = ClaimName(setting.folder, ".events", stem);
  if (fd < 0) return false;
  close(fd);
  const char* const text = stem.Text();
  memcpy(process->stem, text, std::min(strlen(text), sizeof process->stem - 1));
  return true;
}

inline void CopyName(char (&to)[kPathBytes], const char* from) { strncpy(to, from, sizeof to - 1); }

inline void Describe(Header& header) {
  header.pid = static_cast<std::uint32_t>(getpid());
  header.parent = static_cast<std::uint32_t>(getppid());
  header.forked = setting.was_open;
  header.has_stacks = process->stacks != nullptr;
  header.sample_bytes = setting.sample_bytes;
  const BothClocks start = ReadBothClocks();
  header.start_ticks = start.ticks;
  header.start_nanoseconds = start.nanoseconds;
  const ssize_t length = readlink("/proc/self/exe", header.program, sizeof header.program - 1);
  header.program[length > 0 ? length : 0] = '\0';
  CopyName(header.inner_malloc, FileOf(setting.inner.malloc));
  CopyName(header.inner_free, FileOf(setting.inner.free));
  std::atomic_signal_fence(std::memory_order_release);
  header.magic = kMagic;
}

inline bool OpenFiles() {
  if (setting.folder == nullptr || !ClaimStem()) return false;
  process->header = static_cast<Header*>(MapPart(FileOfProcess(".events").Text(), 0, kHeaderBytes));
  if (process->header == nullptr) return false;
  process->events_end.store(platform::PageUp(kHeaderBytes), std::memory_order_relaxed);
  if (setting.has_stacks) process->stacks = MapStacks();
  if (!setting.has_python) process->native_stacks = process->stacks;
  Describe(*process->header);
  if (snapshot::on)
    snapshot::Begin(process->stem, process->header->start_nanoseconds, setting.was_open);
  setting.was_open = true;
  return true;
}

// Whether this process records. The first to ask begins it.
inline bool IsOpen() {
  Stage stage = process->stage.load(std::memory_order_acquire);
  if (stage == Stage::kFresh) {
    const BlockSignals blocked;
    if (process->stage.compare_exchange_strong(stage, Stage::kOpening, std::memory_order_acquire)) {
      stage = OpenFiles() ? Stage::kOpen : Stage::kOff;
      process->stage.store(stage, std::memory_order_release);
    }
  }
  while (stage == Stage::kOpening) {
    sched_yield();
    stage = process->stage.load(std::memory_order_acquire);
  }
  return stage == Stage::kOpen;
}

// A child of vfork has the memory of its parent.
inline bool IsOwnProcess() {
  return process != nullptr && process->header != nullptr &&
         process->header->pid == static_cast<std::uint32_t>(getpid());
}

// The process comes to an end that it chose, or its recording does.
inline void NoteEnd(Ending ending = kExit) {
  if (!IsOwnProcess() || process->header->ending != kRunning) return;
  Header& header = *process->header;
  if (snapshot::on) snapshot::End();
  const BothClocks end = ReadBothClocks();
  header.end_ticks = end.ticks;
  header.end_nanoseconds = end.nanoseconds;
  header.ending = ending;
}

}  // namespace tare::recorder
