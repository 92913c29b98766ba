// A thread's record, and the block of the events file that it writes to.

#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "process.hpp"
#include "python_frames.hpp"
#include "signals.hpp"
#include "snapshots/noted.hpp"
#include "switch.hpp"
#include "unwinding/walk.hpp"

namespace tare::recorder {

inline constexpr std::size_t kFirstBlock = 16 << 10;  // a program may have thousands of threads
inline constexpr std::size_t kLargestBlock = 256 << 10;
inline constexpr std::size_t kMostInLarge = 4 << 20;  // bytes of all blocks

// What stands for the calls that an operator new makes itself.
struct Operator {
  Caller caller;
  Kind kind;
};

enum class Doing : std::uint8_t { kNothing, kRecording, kOwnBusiness };

struct Thread {
  std::uint8_t* at;
  std::uint8_t* limit;
  std::uint64_t time;  // of the last event, in ticks >> kTickShift
  std::uint64_t last_birth, last_death;
  std::uint32_t birth_stack, death_stack;
  std::atomic<Doing> doing;
  bool is_shared;  // by threads that have ended
  std::uint32_t number;
  std::uint32_t level;  // of signals' handlers, each of which interrupted the recorder
  Thread* handler;      // the record of the next level
  Block* block;
  std::int64_t snapshot_left;   // bytes to allocate or free until the next look
  std::int64_t snapshot_grant;  // what that was at the last look
  std::int64_t net_bytes;       // allocated less freed, by this thread
  std::int64_t most_net_bytes;  // at any look
  Thread* next;
  Walker walker;
  python::Frames python;
};

constinit inline thread_local TARE_INITIAL_EXEC Thread* thread = nullptr;
constinit inline thread_local TARE_INITIAL_EXEC bool thread_has_ended = false;
inline pthread_key_t thread_end;

// Events that would be the recorder's own, until the end of the scope. A handler's would be taken
// for such.
class OwnBusiness {
 public:
  explicit OwnBusiness(Thread& t) : thread_(t), before_(t.doing.load(std::memory_order_relaxed)) {
    Set(Doing::kOwnBusiness);
  }
  ~OwnBusiness() { Set(before_); }
  OwnBusiness(const OwnBusiness&) = delete;
  OwnBusiness& operator=(const OwnBusiness&) = delete;

 private:
  void Set(Doing doing) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_.doing.store(doing, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  const BlockSignals blocked_;
  Thread& thread_;
  const Doing before_;
};

inline void LeaveBlock(Thread& t) {
  if (t.block != nullptr) {
    process->in_blocks.fetch_sub(t.block->bytes, std::memory_order_relaxed);
    munmap(t.block, t.block->bytes);
  }
  t.block = nullptr;
  t.at = t.limit = nullptr;
}

// A thread that writes much gets larger blocks, while there are few such threads.
inline std::size_t NextBlockBytes(const Thread& t) {
  if (t.block == nullptr || process->in_blocks.load(std::memory_order_relaxed) > kMostInLarge)
    return std::max(kFirstBlock, platform::PageBytes());
  return std::min<std::size_t>(4 * std::size_t{t.block->bytes}, kLargestBlock);
}

inline bool NextBlock(Thread& t) {
  if (LeavesNow()) return false;
  const std::size_t bytes = NextBlockBytes(t);
  LeaveBlock(t);
  const std::uint64_t offset = process->events_end.fetch_add(bytes, std::memory_order_relaxed);
  auto* const block = static_cast<Block*>(MapPart(FileOfProcess(".events").Text(), offset, bytes));
  if (block == nullptr) {
    Lose(kNoRoom);
    process->stage.store(Stage::kOff, std::memory_order_relaxed);
    return false;
  }
  const auto [ticks, nanoseconds] = ReadBothClocks();
  *block = {kBlockMagic, static_cast<std::uint32_t>(bytes), t.number | t.level << kLevelShift,
            ticks, nanoseconds};
  process->in_blocks.fetch_add(bytes, std::memory_order_relaxed);
  t.block = block;
  t.time = ticks >> kTickShift;
  t.last_birth = t.last_death = 0;
  t.birth_stack = t.death_stack = 0;
  t.at = reinterpret_cast<std::uint8_t*>(block + 1);
  t.limit = reinterpret_cast<std::uint8_t*>(block) + bytes - kMostEventBytes;
  return true;
}

inline Thread* TakeRecord() {
  const BlockSignals blocked;
  const std::scoped_lock guard(process->lock);
  Thread* const unused = process->unused_threads;
  if (unused != nullptr) {
    process->unused_threads = unused->next;
    unused->handler = nullptr;
    return unused;
  }
  return static_cast<Thread*>(MapOwn(sizeof(Thread)));
}

inline Thread* OpenThread() {
  const BlockSignals blocked;
  Thread* const t = TakeRecord();
  if (t == nullptr) {
    Lose(kNoAddresses);
    return nullptr;
  }
  t->number = 1 + process->threads.fetch_add(1, std::memory_order_relaxed);
  t->level = 0;
  thread = t;
  const OwnBusiness own(*t);
  if (snapshot::on) snapshot::NoteThread();
  pthread_setspecific(thread_end, t);
  return t;
}

inline void LeaveShared() {
  thread = nullptr;
  const sigset_t signals = process->blocked_signals;
  process->lock.unlock();
  RestoreSignals(signals);
}

// The record of a handler that interrupted the recorder at `t`. nullptr where handlers have
// interrupted each other too often.
inline Thread* OpenHandler(Thread& t) {
  if (t.handler == nullptr && t.level < kMostLevels) {
    Thread* const handler = TakeRecord();
    if (handler == nullptr) {
      Lose(kNoAddresses);
      return nullptr;
    }
    handler->number = t.number;
    handler->level = t.level + 1;
    t.handler = handler;
  }
  if (t.handler == nullptr) __atomic_fetch_add(&process->header->missed, 1, __ATOMIC_RELAXED);
  return t.handler;
}

// What a thread does after the end of its record is in one that all such threads share. As long as
// a thread has it, it is the thread's own: what it does itself meanwhile does not wait for it.
inline Thread* TakeSharedRecord() {
  const sigset_t signals = BlockAllSignals();
  process->lock.lock();
  process->blocked_signals = signals;
  if (process->last_thread == nullptr) {
    process->last_thread = static_cast<Thread*>(MapOwn(sizeof(Thread)));
    if (process->last_thread == nullptr) {
      LeaveShared();
      Lose(kNoAddresses);
      return nullptr;
    }
    process->last_thread->is_shared = true;
  }
  thread = process->last_thread;
  return thread;
}

inline void EndThread(void*) {
  const BlockSignals blocked;
  Thread* const t = thread;
  thread_has_ended = true;
  thread = nullptr;
  // A child of a fork has found its record empty.
  if (t == nullptr || t->number == 0) return;
  const std::scoped_lock guard(process->lock);
  for (Thread* record = t; record != nullptr; record = record->handler) {
    LeaveBlock(*record);
    record->next = process->unused_threads;
    process->unused_threads = record;
  }
}

inline void Leave(Thread& t) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t.doing.store(Doing::kNothing, std::memory_order_relaxed);
  if (t.is_shared) [[unlikely]]
    LeaveShared();
}

// The rest of Enter.
__attribute__((noinline)) inline Thread* EnterSlowly() {
  const KeepErrno keep;
  Thread* t = thread;
  while (t != nullptr && t->doing.load(std::memory_order_relaxed) != Doing::kNothing) {
    if (t->doing.load(std::memory_order_relaxed) == Doing::kOwnBusiness) return nullptr;
    t = OpenHandler(*t);
    if (t == nullptr) return nullptr;
  }
  if (process == nullptr || !IsOpen()) return nullptr;
  if (thread_has_ended) {
    t = TakeSharedRecord();
  } else if (t == nullptr) {
    t = OpenThread();
  } else if (t->number == 0) {  // in the child of a fork
    t->number = 1 + process->threads.fetch_add(1, std::memory_order_relaxed);
  }
  if (t == nullptr) return nullptr;
  t->doing.store(Doing::kRecording, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (t->at < t->limit || NextBlock(*t)) return t;
  Leave(*t);
  return nullptr;
}

// This thread's record, with room for an event, until Leave. nullptr where nothing is recorded.
inline Thread* Enter() {
  Thread* const t = thread;
  if (t == nullptr || t->at >= t->limit ||
      t->doing.load(std::memory_order_relaxed) != Doing::kNothing) [[unlikely]]
    return EnterSlowly();
  t->doing.store(Doing::kRecording, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return t;
}

}  // namespace tare::recorder
