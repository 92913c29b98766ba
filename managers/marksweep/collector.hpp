// A collection: stop, find roots, mark, decide what is dead, start again, and give what is dead to
// the allocator.

#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <mutex>

#include "beside.hpp"
#include "helpers.hpp"
#include "metadata.hpp"
#include "process.hpp"
#include "roots.hpp"
#include "world.hpp"

namespace tare {

constinit inline Roots roots;

inline constexpr std::size_t kLeastThreshold = 4 << 20;
// In quarantine: bytes searched for each byte that waits.
inline constexpr std::size_t kSearchedForHeld = 4, kLeastHeld = 1 << 20;
inline constexpr int kHeapFullStatus = 86;
// No collection at once, but what is to be done of one beside the program.
inline constexpr Count kGoOn = Count{1} << 63;

// What the pause decided, until it is done.
struct Sweep {
  Leaf* leaf = nullptr;  // the next to sweep; nullptr: none
  std::size_t group = 0;
  Record* record = nullptr;
  bool by_marks = false;              // dead is what has no mark, else what has one
  std::size_t groups = 0, swept = 0;  // where objects were, of a sweep in steps
};
constinit inline Sweep sweep;

struct Drag {
  Count clock = 0;        // bytes allocated at the last collection
  Count freed = 0;        // objects that the program had freed by then, and
  Count freed_clock = 0;  // the sum of the clock at each
  Count held = 0;         // of them not released
};
constinit inline Drag drag;

inline bool IsQuarantine() { return process.options.free == FreeMode::kQuarantine; }

inline Half* CondemnedOf(Leaf& leaf) {
  if (leaf.condemned == nullptr)
    leaf.condemned = static_cast<Half*>(MapOwn(kBlocksInLeaf * sizeof(Half)));
  return leaf.condemned;
}

inline bool TakeCondemned(Address object) {
  Leaf* const leaf = metadata.LeafOf(object);
  if (leaf == nullptr || leaf->condemned == nullptr) return false;
  const Half bit = Half{1} << GranuleOf(object);
  Half& word = leaf->condemned[BlockIndex(object)];
  return (__atomic_fetch_and(&word, ~bit, __ATOMIC_RELAXED) & bit) != 0;
}

struct DeadCounts {
  Count freed = 0;  // dead objects that the program had freed
  Count condemned_objects = 0, condemned_bytes = 0;
};

// With verify=yes: what is dead is used on, and whether it is dead is seen then.
inline void Condemn(Leaf& leaf, Address base, Half dead, DeadCounts& dead_counts) {
  Half* const condemned = CondemnedOf(leaf);
  if (condemned == nullptr) return;
  Half& before = condemned[(base - leaf.base) / kBlockBytes];
  for (Half fresh = dead & ~before; fresh != 0; fresh &= fresh - 1) {
    ++dead_counts.condemned_objects;
    dead_counts.condemned_bytes += metadata.BytesOf(base + FirstIn(fresh) * kGranule);
  }
  __atomic_fetch_or(&before, dead, __ATOMIC_RELAXED);
}

// Leaves in the place of each mark whether the object is dead and will be released.
inline void FindDead(bool reclaim, DeadCounts& dead_counts) {
  const bool verify = process.options.verify, quarantine = IsQuarantine();
  for (Leaf* leaf = metadata.FirstLeaf(); leaf != nullptr; leaf = leaf->next) {
    const auto find_dead = [&](Address base, Block& block) {
      if (block.state == 0 && (block.bounds == 0 || quarantine)) return;
      const Half freed = Freed(block.state);
      Half dead = reclaim ? Starts(block.bounds) & ~Marked(block.state) : 0;
      if (quarantine) dead &= freed;
      if (verify && dead != 0) {
        Condemn(*leaf, base, dead, dead_counts);
        dead = 0;
      }
      dead_counts.freed += static_cast<Count>(std::popcount(dead & freed));
      block.state = Word{freed} << 32 | dead;
    };
    for (std::size_t group = 0; group < kGroupsInLeaf; ++group)
      if (leaf->used[group] != 0) Metadata::VisitGroup(*leaf, group, find_dead);
  }
}

inline void CountDrag(Count released) {
  const Count clock = SumOfSlots(&Slot::allocated_bytes);
  const Count freed = SumOfSlots(&Slot::ignored_objects);
  const Count freed_clock = SumOfSlots(&Slot::freed_clock);
  const Count fresh = freed - drag.freed;
  process.header->held_bytes_sum += fresh * clock - (freed_clock - drag.freed_clock);
  process.header->held_bytes_sum += drag.held * (clock - drag.clock);
  const Count waiting = drag.held + fresh;
  drag = {clock, freed, freed_clock, waiting - std::min(waiting, released)};
}

// The dead objects of a block that are to be released.
inline Half DeadIn(Leaf& leaf, Address base, const Block& block, DeadCounts& dead_counts) {
  if (!sweep.by_marks) return Marked(Load(block.state));
  const Half starts = Starts(Load(block.bounds));  // first: what is new is marked before
  const Word state = Load(block.state);
  const Half dead = starts & ~Marked(state);
  if (dead == 0 || !process.options.verify) {
    dead_counts.freed += static_cast<Count>(std::popcount(dead & Freed(state)));
    return dead;
  }
  Condemn(leaf, base, dead, dead_counts);
  return 0;
}

// Releases the dead objects of `groups` groups of blocks, or of all that are left.
inline void SweepSome(std::size_t groups) {
  Thread& t = thread;
  Header& header = *process.header;
  const Count begin = Nanoseconds();
  Count objects = 0, bytes = 0;
  DeadCounts dead_counts;
  while (sweep.leaf != nullptr && groups > 0) {
    Leaf& leaf = *sweep.leaf;
    if (leaf.used[sweep.group] != 0) {
      --groups;
      ++sweep.swept;
      EnterCritical(t);
      Metadata::VisitGroup(leaf, sweep.group, [&](Address base, Block& block) {
        for (Half dead = DeadIn(leaf, base, block, dead_counts); dead != 0; dead &= dead - 1) {
          const Address object = base + FirstIn(dead) * kGranule;
          const std::size_t released = metadata.Remove(object);
          if (released == 0) continue;
          ++objects;
          bytes += released;
          process.inner.free(reinterpret_cast<void*>(object));
        }
      });
      LeaveCritical(t);
    }
    if (++sweep.group == kGroupsInLeaf) {
      sweep.leaf = leaf.next;
      sweep.group = 0;
    }
  }
  if (sweep.leaf == nullptr) process.sweeps_by_marks.store(false, std::memory_order_relaxed);
  drag.held -= std::min(drag.held, dead_counts.freed);
  objects += dead_counts.condemned_objects;
  bytes += dead_counts.condemned_bytes;
  process.live.fetch_sub(static_cast<std::int64_t>(bytes - dead_counts.condemned_bytes),
                         std::memory_order_relaxed);
  header.swept_objects.fetch_add(objects, std::memory_order_relaxed);
  header.swept_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (sweep.record != nullptr) {
    sweep.record->swept_objects += objects;
    sweep.record->swept_bytes += bytes;
    sweep.record->active_pages_bytes = metadata.ActivePages() * kPageBytes;
  }
  header.outside_nanoseconds.fetch_add(Nanoseconds() - begin, std::memory_order_relaxed);
}

inline void SweepAll() {
  if (sweep.leaf != nullptr) SweepSome(~std::size_t{0});
}

inline void SetThreshold(std::size_t marked_bytes) {
  const std::size_t automatic =
      IsQuarantine() ? std::max(kLeastHeld, process.last_searched_bytes / kSearchedForHeld)
                     : std::max(kLeastThreshold, marked_bytes);
  process.threshold = process.options.every != 0 ? process.options.every : automatic;
  // Where that is for the collector to say, little memory is no reason to wait.
  constexpr std::size_t kLittle = 32 << 20;
  const std::size_t more = process.options.every != 0 ? 0 : kLittle;
  process.wait_at = process.threshold + std::max(process.threshold, more);
  process.pause_at = process.options.pause_nanoseconds != 0 ? process.threshold / 2 : kNever;
}

// Of all threads of the process.
inline Count ProcessorNanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<Count>(now.tv_sec) * 1'000'000'000 + static_cast<Count>(now.tv_nsec);
}

inline bool Reclaims(Count kind) {
  const std::size_t nth = process.options.reclaim;
  return nth != 0 && ((kind & (kHeapLimit | kMallocFailed)) != 0 ||
                      (process.header->collections + 1) % nth == 0);
}

inline Record* AddRecord(const Record& record) {
  Header& header = *process.header;
  Record* const place = NextRecord(&header);
  if (place == nullptr) {
    ++header.records_lost;
    return nullptr;
  }
  *place = record;
  ++header.records;
  return place;
}

// The last part of marking beside the program: from the roots, and from what is marked on pages
// that were written to.
inline void MarkRest() {
  std::size_t bytes = 0;
  bool good = true;
  const platform::Pagemap pagemap;
  good &= VisitWritten<false>(pagemap, [&](Address from, Address to) {
    bytes += to - from;
    EachMarkedOn(from, to, [&](const Span& span) { good &= roots.Found().Add(span); });
  });
  if (!good) markers.Overflow();
  markers.Mark(roots.Found(), process.options.markers, bytes);
}

// All but what happens outside of the pause, which began when the thread began to wait for it. The
// collector's lock is held, signals are blocked.
__attribute__((noinline)) inline bool Pause(const StackInUse& own, Count kind, Count begin) {
  Header& header = *process.header;
  const bool first = (kind & kFirst) != 0, last = (kind & kLast) != 0;
  const Count begin_cpu = ProcessorNanoseconds();
  roots.FindStaticData();
  if (!StopWorld()) return false;
  const Count stopped = Nanoseconds();
  if (!roots.Find(own)) {
    StartWorld();
    return false;
  }
  // Of the first collection nothing is known.
  const std::size_t expected =
      header.collections == 0 ? metadata.ActivePages() * kPageBytes : process.last_searched_bytes;
  if (first) {
    markers.BeginBeside(roots.Found());
  } else if (last) {
    MarkRest();
  } else {
    if (IsQuarantine()) held.Find();
    if (process.options.concurrent) metadata.ClearMarks();
    markers.Begin();
    markers.Mark(roots.Found(), process.options.markers, expected);
  }
  const Count marked = Nanoseconds();
  const bool reclaims = !first && Reclaims(kind);
  DeadCounts dead_counts;
  if (!first && !last) FindDead(reclaims, dead_counts);
  if (!first) CountDrag(dead_counts.freed);
  if (reclaims && (last || !process.options.verify))
    sweep = {metadata.FirstLeaf(), 0, nullptr, last, last ? metadata.UsedGroups() : 0};
  process.sweeps_by_marks.store(last && sweep.leaf != nullptr, std::memory_order_relaxed);
  const Count threads = world.asked.Size();
  const Count end = Nanoseconds(), cpu = ProcessorNanoseconds() - begin_cpu;
  StartWorld();

  header.pause_nanoseconds += end - begin;
  NoteLongest(end - begin);
  header.pause_cpu_nanoseconds += cpu;
  header.stop_nanoseconds += stopped - begin;
  header.mark_nanoseconds += marked - stopped;
  header.sweep_nanoseconds += end - marked;
  header.threads_stopped_max = std::max(header.threads_stopped_max, threads);
  if (first) {
    ++header.first_pauses;
    AddRecord({.begin = begin,
               .end = end,
               .active_pages_bytes = metadata.ActivePages() * kPageBytes,
               .kind = kind,
               .released = end,
               .cpu_nanoseconds = cpu,
               .thread = static_cast<Count>(ThreadId())});
    return true;
  }
  process.last_marked_bytes = markers.Bytes();
  process.last_searched_bytes = roots.Bytes() + markers.LiveBytes() + markers.Bytes();
  header.marked_objects += markers.Objects();
  header.marked_bytes += markers.Bytes();
  header.root_bytes += roots.Bytes();
  header.searched_bytes += process.last_searched_bytes;
  header.peak_live_marked_bytes = std::max<Count>(header.peak_live_marked_bytes, markers.Bytes());
  header.swept_objects.fetch_add(dead_counts.condemned_objects, std::memory_order_relaxed);
  header.swept_bytes.fetch_add(dead_counts.condemned_bytes, std::memory_order_relaxed);
  header.metadata_bytes.store(metadata.OwnBytes(), std::memory_order_relaxed);
  header.reclaiming_collections += reclaims;
  ++header.collections;
  sweep.record = AddRecord({.begin = begin,
                            .end = end,
                            .marked_objects = markers.Objects(),
                            .marked_bytes = markers.Bytes(),
                            .swept_objects = dead_counts.condemned_objects,
                            .swept_bytes = dead_counts.condemned_bytes,
                            .active_pages_bytes = metadata.ActivePages() * kPageBytes,
                            .kind = kind | (reclaims ? Count{kReclaimed} : 0),
                            .released = end,
                            .cpu_nanoseconds = cpu,
                            .thread = static_cast<Count>(ThreadId())});
  return true;
}

[[noreturn]] inline void HeapIsFull() {
  Message message;
  message << "tare-marksweep: the heap of " << process.options.heap
          << " bytes is full: " << metadata.ActivePages() * kPageBytes
          << " bytes of pages hold objects that are live\n";
  message.Write(STDERR_FILENO);
  syscall(SYS_exit_group, kHeapFullStatus);
  __builtin_unreachable();
}

inline bool IsHeapFull(std::size_t more) {
  const std::size_t heap = process.options.heap;
  const std::size_t pages = more < kPageBytes ? 0 : PageUp(more);
  return heap != 0 && metadata.ActivePages() * kPageBytes + pages > heap;
}

// These with the collector's lock held and signals blocked.

inline bool PauseHere(const StackInUse& own, Count kind, Count begin) {
  EnterCritical(thread);
  const bool done = Pause(own, kind, begin);
  thread.must_park = false;
  LeaveCritical(thread);
  if ((kind & kFirst) == 0 || !done) process.since_collection.store(0, std::memory_order_relaxed);
  if (!done) ++process.header->skipped_collections;
  if ((kind & kFirst) == 0) SetThreshold(process.last_marked_bytes);
  return done;
}

inline bool CollectStopped(const StackInUse& own, Count kind, Count begin) {
  SweepAll();
  const bool done = PauseHere(own, kind, begin);
  SweepAll();
  if (done && sweep.record != nullptr) sweep.record->released = Nanoseconds();
  return done;
}

// What a thread does for a collection outside of pauses.
inline void NoteStep(Count begin) {
  Count& longest = process.header->longest_step_nanoseconds;
  longest = std::max(longest, Nanoseconds() - begin);
}

// A collection beside the program begins, or goes on where the marker has done its part. What a
// thread waits for the marker before a pause is a part of the pause. False when it comes to
// nothing.
inline bool GoOn(const StackInUse& own, bool wait) {
  const Count begin = Nanoseconds();
  if (wait) beside.AwaitTurn();
  Phase next = Phase::kEnding;
  bool done = true;
  if (beside.IsIdle()) {
    SweepAll();
    const bool begun = beside.Begin();
    NoteStep(begin);
    if (begun) return true;
    ++process.header->stopped_instead;
    return CollectStopped(own, 0, begin);
  }
  if (beside.Now() == Phase::kPrepared && beside.HasFailed()) {
    ++process.header->stopped_instead;
    beside.Abandon();
    return CollectStopped(own, 0, begin);
  }
  if (beside.Now() == Phase::kPrepared) {
    done = PauseHere(own, kFirst, begin);
    if (done) next = Phase::kMarking;
  } else if (beside.Now() == Phase::kMarked) {
    if (!wait && beside.IsFarBehind())
      next = Phase::kMarking;
    else
      done = PauseHere(own, kLast, begin);
  } else {
    return true;
  }
  beside.Go(next);
  return done;
}

// Whether there is anything to be done for them.
inline bool IsTimeToGoOn() {
  if (process.sweeps_by_marks.load(std::memory_order_relaxed)) return true;
  const std::size_t since = process.since_collection.load(std::memory_order_relaxed);
  switch (beside.Now()) {
    case Phase::kPrepared:
    case Phase::kMarked:
      return true;
    case Phase::kPreparing:
    case Phase::kMarking:
      return since >= process.wait_at;
    default:
      return since >= process.threshold;
  }
}

// All that is to be done now for collections beside the program, in steps.
inline void Step(const StackInUse& own) {
  constexpr std::size_t kMostGroups = 16;
  const auto since = [] { return process.since_collection.load(std::memory_order_relaxed); };
  while (since() >= process.wait_at && GoOn(own, true)) continue;
  if (!beside.IsIdle() || since() >= process.threshold) GoOn(own, false);
  if (sweep.leaf != nullptr) {
    // All is swept when half of what is allocated until the next collection is.
    const double part = 2.0 * static_cast<double>(since()) / static_cast<double>(process.threshold);
    const auto goal =
        static_cast<std::size_t>(std::min(part, 1.0) * static_cast<double>(sweep.groups + 1));
    const Count begin = Nanoseconds();
    if (goal > sweep.swept) SweepSome(std::min(goal - sweep.swept, kMostGroups));
    NoteStep(begin);
  }
}

inline bool CollectLocked(const StackInUse& own, Count kind, std::size_t more) {
  if (kind == kGoOn) {
    Step(own);
    return true;
  }
  const Count begin = Nanoseconds();
  bool done;
  if (process.options.concurrent) beside.Abandon();
  if (process.options.concurrent && kind == 0) {
    SweepAll();
    const Count before = process.header->collections;
    do done = GoOn(own, true);
    while (done && process.header->collections == before);
    SweepAll();
  } else {
    done = CollectStopped(own, kind, begin);
  }
  if (done && (kind & kHeapLimit) != 0 && IsHeapFull(more)) HeapIsFull();
  return done;
}

// Collects, unless this cannot be done here: another thread does or is about to fork, or this is
// the child of a vfork. With `wait`, after what the other thread does. `more` bytes are about to be
// allocated.
__attribute__((noinline)) inline bool Collect(Count kind, bool wait, std::size_t more) {
  platform::CalleeSaved registers;
  platform::Spill(registers);
  const auto frame = reinterpret_cast<Address>(__builtin_frame_address(0));
  const Address stack = std::min(frame, reinterpret_cast<Address>(&registers));
  const KeepErrno keep;
  if (!process.ready || getpid() != process.pid) return false;
  for (;; sched_yield()) {
    const SignalsBlocked blocked;
    if (process.forks_waiting.load(std::memory_order_relaxed) == 0 &&
        process.collector.try_lock()) {
      const bool done = CollectLocked({stack, stack, ThreadPointer()}, kind, more);
      process.collector.unlock();
      return done;
    }
    if (!wait) return false;
  }
}

}  // namespace tare
