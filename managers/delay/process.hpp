// What the threads of a process share: options, the allocator underneath, counters, and the lists
// of threads, of slots and of buffers that are left.

#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "counters.hpp"
#include "inner.hpp"
#include "options.hpp"
#include "process_counters.hpp"
#include "slot_table.hpp"
#include "spin_lock.hpp"
#include "system.hpp"

namespace tare {

#define TARE_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

struct Thread;

struct Buffer {  // the head of one that no thread has
  Buffer* next;
};

struct Process {
  Options options;
  Inner inner;
  const char* counters_folder = nullptr;
  Header* header = nullptr;
  bool header_of_parent = false;

  SpinLock lock;  // of what follows up to the blank line
  Thread* threads = nullptr;
  Buffer* buffers = nullptr;
  std::size_t buffers_kept = 0;
  SlotTable<Slot, kMostSlots> slots;

  // Of scope=global, apart from what every free reads.
  alignas(64) std::atomic<std::int64_t> volume = 0;
  alignas(64) std::atomic<std::uint64_t> epoch = 0;
};

constinit inline Process process;
constinit inline Slot lost_counts{};

// What this thread does with the lists, for a fork in it: of its own, of a signal's handler, or of
// a handler of the fork.
enum class Lists : unsigned char { kLeft, kUsed, kHeldForFork };
constinit inline thread_local TARE_INITIAL_EXEC Lists lists = Lists::kLeft;

// Holds `process.lock`, unless this thread does so already, for a fork.
class ListsGuard {
 public:
  ListsGuard() : before_(lists) {
    if (before_ == Lists::kHeldForFork) return;
    lists = Lists::kUsed;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    process.lock.lock();
  }
  // Calls `wait` as long as another thread has it.
  template <typename Wait>
  explicit ListsGuard(Wait wait) : before_(lists) {
    if (before_ == Lists::kHeldForFork) return;
    while (!Take()) wait();
  }
  ~ListsGuard() {
    if (before_ == Lists::kHeldForFork) return;
    process.lock.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    lists = before_;
  }
  ListsGuard(const ListsGuard&) = delete;
  ListsGuard& operator=(const ListsGuard&) = delete;

 private:
  bool Take() {
    lists = Lists::kUsed;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (process.lock.try_lock()) return true;
    lists = before_;
    return false;
  }

  const Lists before_;
};

inline constexpr std::size_t kFirstBuffer = 16 << 10;
inline constexpr std::size_t kBuffersKept = 64;

inline std::size_t FirstBufferBytes() {
  return process.options.buffer != 0 ? process.options.buffer : kFirstBuffer;
}

inline void** TakeBuffer() {
  {
    const ListsGuard guard;
    if (Buffer* const buffer = process.buffers; buffer != nullptr) {
      process.buffers = buffer->next;
      --process.buffers_kept;
      return reinterpret_cast<void**>(buffer);
    }
  }
  return static_cast<void**>(MapPages(FirstBufferBytes()));
}

inline void GiveBuffer(void** base, std::size_t bytes) {
  if (bytes == FirstBufferBytes()) {
    const ListsGuard guard;
    if (process.buffers_kept < kBuffersKept) {
      auto* const buffer = reinterpret_cast<Buffer*>(base);
      buffer->next = process.buffers;
      process.buffers = buffer;
      ++process.buffers_kept;
      return;
    }
  }
  munmap(base, bytes);
}

inline Slot* TakeSlot() {
  const ListsGuard guard;
  Header* const header = OwnHeader(process);
  if (header == nullptr) return &lost_counts;
  Slot* const slot = process.slots.Take(SlotsOf(header), header->slots);
  if (slot == nullptr) {
    header->uncounted.fetch_add(1, std::memory_order_relaxed);
    return &lost_counts;
  }
  ++slot->threads;
  slot->thread = static_cast<Count>(syscall(SYS_gettid));
  return slot;
}

inline void GiveSlot(Slot* slot) {
  if (slot == nullptr || slot == &lost_counts) return;
  const ListsGuard guard;
  process.slots.Give(SlotsOf(process.header), slot);
}

}  // namespace tare
