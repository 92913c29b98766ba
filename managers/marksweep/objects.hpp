// What stands for malloc and free: each object of the inner allocator is entered into the metadata,
// with one byte more than asked for, so that a pointer just past its end still is in it.

#pragma once

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "collector.hpp"
#include "metadata.hpp"
#include "next.hpp"
#include "pauses.hpp"
#include "process.hpp"

namespace tare {

void BeginOnce();

inline constexpr std::size_t kLargestRequest = std::numeric_limits<std::ptrdiff_t>::max() - 65536;
// Bytes that a thread allocates between two refills; fewer where each can be the one too many, or
// a marker waits for a pause; fewest where it cannot keep up with what threads write to.
inline constexpr std::size_t kStep = 64 << 10, kShortStep = 4 << 10, kShortestStep = 1 << 10;
// What all threads together have not made known must be little beside the threshold.
inline constexpr std::size_t kStepsOfThreads = 64;

inline std::size_t BytesFor(std::size_t requested) {
  return (requested + kGranule) & ~(kGranule - 1);
}

// What is asked of the allocator. glibc never puts two objects into one granule; of others a
// multiple of the granule must be asked, which they must align to it.
inline std::size_t RequestFor(std::size_t requested, std::size_t bytes) {
  return process.inner_is_glibc ? requested + 1 : bytes;
}

inline bool TakesPlace(const Thread& t) { return t.slot == nullptr || t.slot == &early_counts; }

inline void GetSlot(Thread& t) {
  if (!process.began) {
    t.slot = &early_counts;
    return;
  }
  const Critical critical;
  Slot* const slot = TakeSlot();
  if (t.slot == &early_counts) {
    slot->allocated_objects += early_counts.allocated_objects;
    slot->allocated_bytes += early_counts.allocated_bytes;
    slot->freed_objects += early_counts.freed_objects;
    slot->freed_bytes += early_counts.freed_bytes;
  }
  t.slot = slot;
  t.published_freed = slot->freed_bytes;
  t.published_ignored = slot->ignored_bytes;
  t.clock_of_others = process.allocated.load(std::memory_order_relaxed) - slot->allocated_bytes;
  if (slot != &lost_counts) pthread_setspecific(process.thread_end, &t);
}

// Makes known what this thread has allocated and freed.
inline void Publish(Thread& t) {
  const auto used = static_cast<Count>(t.granted - t.credit);
  t.granted = t.credit = 0;
  const Count allocated = process.allocated.fetch_add(used, std::memory_order_relaxed) + used;
  const Count ignored = t.slot->ignored_bytes - t.published_ignored;
  t.published_ignored += ignored;
  process.since_collection.fetch_add(IsQuarantine() ? ignored : used, std::memory_order_relaxed);
  t.clock_of_others = allocated - t.slot->allocated_bytes;
  const Count freed = t.slot->freed_bytes - t.published_freed;
  t.published_freed += freed;
  const auto more = static_cast<std::int64_t>(used - freed);
  const std::int64_t live = process.live.fetch_add(more, std::memory_order_relaxed) + more;
  if (process.header == nullptr) return;
  auto& peak = process.header->peak_requested_bytes;
  if (live > static_cast<std::int64_t>(peak.load(std::memory_order_relaxed)))
    peak.store(static_cast<Count>(live), std::memory_order_relaxed);
}

inline std::size_t SinceCollection() {
  return process.since_collection.load(std::memory_order_relaxed);
}

// The credit is used up: `bytes`, which are in it already, are about to be allocated.
__attribute__((noinline)) inline void RefillCredit(Thread& t, std::size_t bytes) {
  const KeepErrno keep;
  BeginOnce();
  if (TakesPlace(t)) GetSlot(t);
  Publish(t);
  if (!process.ready) {
    t.granted = t.credit = 0;
    return;
  }
  bool is_overdue = false;
  if (IsHeapFull(bytes))
    Collect(kHeapLimit, false, bytes);
  else if (process.options.concurrent ? IsTimeToGoOn() : SinceCollection() >= process.threshold)
    is_overdue = !Collect(process.options.concurrent ? kGoOn : 0, false, bytes);
  else if (SinceCollection() >= process.pause_at)
    PauseOnPurpose();
  else if (process.options.concurrent && beside.IsBehind(SinceCollection()))
    beside.LetAhead();
  const std::size_t since = SinceCollection();
  const bool late = process.options.concurrent && since >= process.threshold;
  const std::size_t next = std::min(late ? process.wait_at : process.threshold, process.pause_at);
  std::size_t left = next > since ? next - since - 1 : 0;
  std::size_t step = process.options.heap != 0 || late ? kShortStep : kStep;
  if (late && beside.IsOutpaced()) step = kShortestStep;
  if (!__libc_single_threaded) step = std::min(step, process.threshold / kStepsOfThreads);
  if (is_overdue && left == 0) {
    // Another thread collects, and waits for a processor. Not each object needs to ask for that.
    sched_yield();
    left = step;
  }
  t.granted = t.credit = static_cast<std::int64_t>(std::min(left, step));
}

// Enters what the inner allocator gave; gives it back, and returns nullptr, if that cannot be.
__attribute__((always_inline)) inline void* Enter(Thread& t, void* object, std::size_t bytes) {
  if (object == nullptr) [[unlikely]]
    return nullptr;
  if (process.sweeps_by_marks.load(std::memory_order_relaxed)) [[unlikely]]
    metadata.MarkUnborn(reinterpret_cast<Address>(object));
  if (!metadata.Enter(reinterpret_cast<Address>(object), bytes)) [[unlikely]] {
    process.inner.free(object);
    errno = ENOMEM;
    return nullptr;
  }
  ++t.slot->allocated_objects;
  t.slot->allocated_bytes += bytes;
  return object;
}

// A multiple of a word.
__attribute__((always_inline)) inline void SetZero(void* memory, std::size_t bytes) {
  constexpr std::size_t kFew = 128;
  if (bytes > kFew) {
    memset(memory, 0, bytes);
    return;
  }
  auto* const words = static_cast<Address*>(memory);
  for (std::size_t i = 0; i < bytes / sizeof *words; ++i) words[i] = 0;
}

// What an object still holds of an earlier one, or of the allocator's list of free memory, would
// keep other objects alive by chance: programs do not write to all of what they ask for. Of a large
// object, only the allocator's words are worth the time. In quarantine it was cleared when freed.
inline void Clear(void* object, std::size_t requested, std::size_t bytes) {
  if (process.options.every == kNever || Marker::in_quarantine) return;
  constexpr std::size_t kSmall = 1024, kLinks = 32;
  // Of glibc's objects, those that need less than half of their last granule end there.
  const bool ends_early = process.inner_is_glibc && requested % kGranule < 8;
  const std::size_t cleared = bytes > kSmall ? kLinks : bytes - (ends_early ? 8 : 0);
  SetZero(object, cleared);
}

// `allocate(n)` asks the inner allocator for n bytes.
template <typename Allocate>
__attribute__((noinline)) void* TryAgain(Thread& t, std::size_t requested, std::size_t bytes,
                                         Allocate allocate) {
  if (t.depth > 0 || !Collect(kMallocFailed, true, bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  EnterCritical(t);
  void* const object = Enter(t, allocate(RequestFor(requested, bytes)), bytes);
  LeaveCritical(t);
  return object;
}

// For a thread that is in no critical section.
template <typename Allocate>
__attribute__((always_inline)) inline void* New(Thread& t, std::size_t requested,
                                                Allocate allocate) {
  if (requested > kLargestRequest) [[unlikely]] {
    errno = ENOMEM;
    return nullptr;
  }
  const std::size_t bytes = BytesFor(requested);
  t.credit -= static_cast<std::int64_t>(bytes);
  if (t.credit < 0) [[unlikely]]
    RefillCredit(t, bytes);
  EnterOutermost(t);
  void* const object = Enter(t, allocate(RequestFor(requested, bytes)), bytes);
  LeaveOutermost(t);
  if (object == nullptr) [[unlikely]]
    return TryAgain(t, requested, bytes, allocate);
  return object;
}

// In a critical section it is the allocator itself that asks, or what it calls.
__attribute__((noinline)) inline void* Malloc(std::size_t requested) {
  Thread& t = thread;
  if (t.depth > 0) [[unlikely]]
    return process.inner.malloc(requested);
  void* const object =
      New(t, requested, [](std::size_t bytes) { return process.inner.malloc(bytes); });
  if (object != nullptr) [[likely]]
    Clear(object, requested, BytesFor(requested));
  return object;
}
inline void* Calloc(std::size_t requested) {
  Thread& t = thread;
  if (t.depth > 0) [[unlikely]]
    return process.inner.calloc(1, requested);
  return New(t, requested, [](std::size_t bytes) { return process.inner.calloc(1, bytes); });
}

using NextMemalign = Next<"memalign", void*(std::size_t, std::size_t)>;
inline void* Aligned(std::size_t alignment, std::size_t requested) {
  Thread& t = thread;
  const std::size_t most = std::max(alignment, kGranule);
  if (t.depth > 0) [[unlikely]]
    return NextMemalign::Call(most, requested);
  void* const object =
      New(t, requested, [most](std::size_t bytes) { return NextMemalign::Call(most, bytes); });
  if (object != nullptr) Clear(object, requested, BytesFor(requested));
  return object;
}

// The program uses an object that is condemned: it was not dead.
inline void NoticeUse(Address object) {
  if (process.options.verify && TakeCondemned(object))
    process.header->false_reclaims.fetch_add(1, std::memory_order_relaxed);
}

// No object of ours: freed twice, or from another door of the allocator, which then knows it.
__attribute__((noinline)) inline void FreeUnknown(Thread& t, void* object) {
  if (t.slot != nullptr) ++t.slot->bad_frees;
  if (process.free == FreeMode::kHonour) process.inner.free(object);
}

__attribute__((noinline)) inline void FreeNested(void* object) {
  const auto address = reinterpret_cast<Address>(object);
  if (metadata.Remove(address) == 0 || process.free == FreeMode::kHonour) {
    process.inner.free(object);
  }
}

// What an object held must keep no other alive, and nobody shall find it there. The pages of a
// large one go back to the kernel, which clears them when they are used again; returns their bytes.
inline std::size_t Wipe(Address object, std::size_t bytes) {
  constexpr std::size_t kLarge = 128 << 10;
  if (process.inner_is_glibc)
    bytes = std::min(bytes, process.inner.usable_size(reinterpret_cast<void*>(object)));
  if (bytes < kLarge) {
    SetZero(reinterpret_cast<void*>(object), bytes);
    return 0;
  }
  const Address end = object + bytes, from = PageUp(object), to = PageDown(end);
  const KeepErrno keep;
  const bool discarded = syscall(SYS_madvise, from, to - from, MADV_DONTNEED) == 0;
  memset(reinterpret_cast<void*>(object), 0, (discarded ? from : end) - object);
  memset(reinterpret_cast<void*>(to), 0, end - to);
  return discarded ? to - from : 0;
}

// Notes that the program has freed the object, and leaves it.
__attribute__((noinline)) inline void IgnoreFree(Thread& t, Address object) {
  Block* const block = metadata.BlockOf(object);
  const Word bit = EndBit(GranuleOf(object));
  if ((SetState(block->state, bit) & bit) != 0) {
    ++t.slot->bad_frees;
    return;
  }
  const std::size_t bytes = metadata.BytesOf(object);
  ++t.slot->ignored_objects;
  t.slot->ignored_bytes += bytes;
  t.slot->freed_clock += Clock(t);
  if (!Marker::in_quarantine) return;
  // Pages that hold nothing are cheap to keep, but not free: their tables and addresses remain.
  constexpr std::size_t kCountedOfDiscarded = 16;
  const std::size_t discarded = Wipe(object, bytes);
  t.published_ignored += discarded - discarded / kCountedOfDiscarded;
  if (bytes < kStep) return;
  t.granted -= t.credit;  // it is made known when something is allocated next
  t.credit = 0;
}

inline void Free(void* object) {
  if (object == nullptr) return;
  Thread& t = thread;
  if (t.depth > 0) [[unlikely]]
    return FreeNested(object);
  if (t.slot == nullptr) [[unlikely]]
    RefillCredit(t, 0);
  const auto address = reinterpret_cast<Address>(object);
  if (process.options.verify) [[unlikely]]
    NoticeUse(address);
  EnterOutermost(t);
  if (process.free == FreeMode::kHonour) {
    const std::size_t bytes = metadata.Remove(address);
    if (bytes != 0) [[likely]] {
      ++t.slot->freed_objects;
      t.slot->freed_bytes += bytes;
      process.inner.free(object);
    } else {
      FreeUnknown(t, object);
    }
  } else if (metadata.IsObject(address)) {
    IgnoreFree(t, address);
  } else {
    FreeUnknown(t, object);
  }
  LeaveOutermost(t);
}

// Calls each(object, bytes, data) for all that the program has freed and the allocator not yet has.
inline void VisitHeld(void (*each)(void*, std::size_t, void*), void* data) {
  const SignalsBlocked blocked;
  if (!process.collector.try_lock()) return;
  metadata.VisitBlocks([&](Address base, const Block& block) {
    Half freed = Freed(Load(block.state)) & Starts(Load(block.bounds));
    for (; freed != 0; freed &= freed - 1) {
      const Address object = base + FirstIn(freed) * kGranule;
      each(reinterpret_cast<void*>(object), metadata.BytesOf(object), data);
    }
  });
  process.collector.unlock();
}

inline std::size_t UsableSize(void* object) {
  const auto address = reinterpret_cast<Address>(object);
  if (object == nullptr) return 0;
  if (!metadata.IsObject(address)) return process.inner.usable_size(object);
  const Critical critical;
  NoticeUse(address);
  return std::min(metadata.BytesOf(address), process.inner.usable_size(object)) - 1;
}

inline void* Move(void* object, std::size_t requested, std::size_t kept) {
  void* const moved = Malloc(requested);
  if (moved == nullptr) return nullptr;
  memcpy(moved, object, std::min(kept, requested));
  Free(object);
  return moved;
}

// The allocator may find a place beside the object, or move its pages.
inline void* ResizeByInner(Thread& t, void* object, std::size_t requested) {
  const std::size_t bytes = BytesFor(requested);
  t.credit -= static_cast<std::int64_t>(bytes);
  if (t.credit < 0) [[unlikely]]
    RefillCredit(t, bytes);
  EnterOutermost(t);
  const std::size_t before = metadata.Remove(reinterpret_cast<Address>(object));
  void* const resized = process.inner.realloc(object, RequestFor(requested, bytes));
  if (resized != nullptr) [[likely]] {
    ++t.slot->freed_objects;
    t.slot->freed_bytes += before;
    if (Enter(t, resized, bytes) == nullptr) {
      Message message;
      message << "tare-marksweep: no memory to note where a resized object is";
      Abort(message);
    }
  } else {
    metadata.Enter(reinterpret_cast<Address>(object), before);
  }
  LeaveOutermost(t);
  return resized;
}

inline void* Resize(void* object, std::size_t requested) {
  if (object == nullptr) return Malloc(requested);
  Thread& t = thread;
  const auto address = reinterpret_cast<Address>(object);
  if (t.depth > 0 || !metadata.IsObject(address)) [[unlikely]]
    return process.inner.realloc(object, requested);
  if (requested > kLargestRequest) {
    errno = ENOMEM;
    return nullptr;
  }
  if (requested == 0) {
    Free(object);
    return nullptr;
  }
  if (t.slot == nullptr) RefillCredit(t, 0);
  NoticeUse(address);
  if (process.free == FreeMode::kHonour && !process.options.verify) {
    if (void* const resized = ResizeByInner(t, object, requested)) return resized;
    // Move asks for memory once more, after a collection.
  }
  const std::size_t usable = UsableSize(object);
  if (requested <= usable && requested >= usable / 2) return object;
  return Move(object, requested, usable);
}

}  // namespace tare
