// A marker beside the program, for mark=concurrent: mostly-parallel marking after Boehm, Demers and
// Shenker (PLDI 1991). doi.org/10.1145/113445.113459
//
// While it searches the heap, the kernel watches which pages of that the program writes to. Threads
// are stopped twice: to find what the roots point to, and at the end to search the roots and the
// pages last written to once more. A mark says that an object is searched; what was written into it
// later is on a page that was written to since that page was last taken to be searched.
//
// The marker is a thread like the helpers of helpers.hpp, for one collection. It has a thread-local
// storage of its own, and descriptors of its own, which the program can neither see nor close.

#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

#include "helpers.hpp"
#include "metadata.hpp"
#include "roots.hpp"
#include "system.hpp"
#include "tare/platform/maps.hpp"
#include "tare/platform/pagemap.hpp"
#include "tare/platform/write_watch.hpp"
#include "world.hpp"

namespace tare {

constinit inline Markers markers;

// In these turns. Who may go on from one is the marker, or a thread that holds the collector's
// lock.
enum class Phase : std::uint32_t {
  kIdle,
  kPreparing,  // marker: pages are watched, marks cleared
  kPrepared,
  kMarking,  // marker
  kMarked,   // back to kMarking if much may have been written to since
  kEnding    // marker: pages are no longer watched; it is over when the thread has ended
};

// Calls take(start, end) until the range is done, with not too much at a time: the program cannot
// map memory meanwhile. False when the kernel does not tell.
template <typename Take>
bool InPieces(Address from, Address to, Take take) {
  constexpr std::uint64_t kPiece = 8 << 20;
  for (std::uint64_t at = from; at < to;) {
    const std::uint64_t end = std::min<std::uint64_t>(at + kPiece, to);
    while (at < end)
      if (!take(at, end)) return false;
  }
  return true;
}

// Calls visit(from, to) for pages of the heap that were written to. With `take` they count as not
// written to from then on, and those that are not watched are left out.
template <bool kTake, typename Visit>
bool VisitWritten(const platform::Pagemap& pagemap, Visit visit) {
  bool good = pagemap.IsOpen();
  metadata.EachStretch([&](Address from, Address to) {
    good = good && InPieces(from, to, [&](std::uint64_t& at, std::uint64_t end) {
             constexpr std::size_t kAtOnce = 256;
             platform::PageRange found[kAtOnce];
             const int count = kTake ? pagemap.TakeWritten(at, end, found, kAtOnce)
                                     : pagemap.ScanWritten(at, end, found, kAtOnce);
             for (int i = 0; i < count; ++i) visit(found[i].start, found[i].end);
             return count >= 0;
           });
  });
  return good;
}

// Calls visit(span) for what is marked on pages from `from` to `to`, and for words across their
// borders.
template <typename Visit>
void EachMarkedOn(Address from, Address to, Visit visit) {
  const std::size_t across = sizeof(Address) - Marker::step;
  metadata.EachMarked(from - across, to + across,
                      [&](Address begin, Address end) { visit(Span{begin, end}); });
}

// How long a thread was stopped, or waited.
inline void NoteLongest(Count nanoseconds) {
  auto& longest = process.header->longest_nanoseconds;
  Count before = longest.load(std::memory_order_relaxed);
  while (before < nanoseconds &&
         !longest.compare_exchange_weak(before, nanoseconds, std::memory_order_relaxed))
    continue;
}

class Beside {
 public:
  // In the process as it begins.
  static bool IsPossible() {
    const platform::WriteWatch watch;
    const platform::Pagemap pagemap;
    auto at = static_cast<std::uint64_t>(PageDown(reinterpret_cast<Address>(&watch)));
    platform::PageRange found;
    return watch.IsOpen() && pagemap.ScanWritten(at, at + platform::PageBytes(), &found, 1) >= 0;
  }

  Phase Now() const { return static_cast<Phase>(phase_.load(std::memory_order_acquire)); }

  // False when there can be no thread.
  bool Begin() {
    if (stack_ == nullptr && !MapThread()) return false;
    failed_ = false;
    again_ = 0;
    caught_up_at_ = 0;
    SetPhase(Phase::kPreparing);
    world.beside_runs.store(1, std::memory_order_relaxed);
    constexpr platform::CloneFlags kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
                                            CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
                                            CLONE_CHILD_CLEARTID;
    const long id = platform::CloneThread(kFlags, Main, this, stack_ + kHelperStack,
                                          &world.beside_runs, storage_);
    if (id > 0) {
      world.beside = static_cast<pid_t>(id);
      return true;
    }
    world.beside_runs.store(0, std::memory_order_relaxed);
    SetPhase(Phase::kIdle);
    return false;
  }

  // For who holds the collector's lock, where it is not the marker's turn.
  void Go(Phase next) { SetPhase(next); }

  // Whether threads write to more pages than the marker can search meanwhile.
  bool IsOutpaced() const { return outpaced_.load(std::memory_order_relaxed); }

  // Whether a thread that allocates is to let the marker go ahead: it is outpaced, or threads are
  // on their way to where they have to wait for it.
  bool IsBehind(std::size_t since) const {
    return IsOutpaced() || since >= process.threshold / 2 + process.wait_at / 2;
  }

  // A little. The thread may be stopped meanwhile.
  void LetAhead() {
    constexpr timespec kLittle{0, 1'000'000};
    const Phase now = Now();
    if (now != Phase::kPreparing && now != Phase::kMarking) return;
    const Count begin = Nanoseconds();
    FutexWait(phase_, static_cast<std::uint32_t>(now), &kLittle);
    const Count waited = Nanoseconds() - begin;
    process.header->wait_nanoseconds.fetch_add(waited, std::memory_order_relaxed);
    NoteLongest(waited);
  }

  // Until it is not the marker's turn.
  void AwaitTurn() {
    Phase now = Now();
    for (; now == Phase::kPreparing || now == Phase::kMarking; now = Now())
      FutexWait(phase_, static_cast<std::uint32_t>(now), nullptr);
    if (now == Phase::kEnding) AwaitHelper(world.beside_runs);
  }

  // Whether there is none, after the last one.
  bool IsIdle() {
    if (Now() == Phase::kEnding && world.beside_runs.load(std::memory_order_acquire) == 0)
      SetPhase(Phase::kIdle);
    return Now() == Phase::kIdle;
  }

  // Whatever it is at, that is for nothing.
  void Abandon() {
    AwaitTurn();
    if (Now() == Phase::kPrepared || Now() == Phase::kMarked) SetPhase(Phase::kEnding);
    AwaitTurn();
    IsIdle();
  }

  // Pages could not be watched.
  bool HasFailed() const { return failed_; }
  // Whether so much is to be searched in the last pause that another round of the marker is better.
  bool IsFarBehind() {
    constexpr std::size_t kManyPages = 2048;
    constexpr unsigned kMost = 4;
    constexpr Count kSoon = 1'000'000;
    if (again_ == kMost || Nanoseconds() - caught_up_at_ < kSoon) return false;
    ++again_;
    std::size_t bytes = 0;
    const platform::Pagemap pagemap;
    VisitWritten<false>(pagemap, [&](Address from, Address to) { bytes += to - from; });
    return bytes > kManyPages * kPageBytes;
  }

  // With the marks of before: the next collection clears them.
  void AfterForkInChild() {
    SetPhase(Phase::kIdle);
    outpaced_.store(false, std::memory_order_relaxed);
    world.beside_runs.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kFewPages = 256, kMostRounds = 32, kMostStalls = 8;
  // What older headers lack: SYS_close_range, and CLOSE_RANGE_UNSHARE.
  static constexpr long kCloseRange = 436;
  static constexpr unsigned kUnshared = 2;

  static void Main(void* argument) { static_cast<Beside*>(argument)->Run(); }

  void SetPhase(Phase phase) {
    phase_.store(static_cast<std::uint32_t>(phase), std::memory_order_release);
    FutexWake(phase_);
  }

  void AwaitOtherThan(Phase phase) {
    while (Now() == phase) FutexWait(phase_, static_cast<std::uint32_t>(phase), nullptr);
  }

  // All that lies around the thread pointer and is used here are the layer's own record of a thread
  // and errno.
  bool MapThread() {
    const Address pointer = ThreadPointer();
    Address reach = 0;
    for (const Address used :
         {reinterpret_cast<Address>(&thread), reinterpret_cast<Address>(&errno)})
      reach = std::max(reach, used < pointer ? pointer - used : used - pointer);
    reach = PageUp(reach + sizeof thread) + kPageBytes;
    stack_ = static_cast<char*>(MapOwn(kHelperStack + 2 * reach));
    if (stack_ == nullptr) return false;
    storage_ = reinterpret_cast<void**>(stack_ + kHelperStack + reach);
    *storage_ = storage_;  // as the ABI of x86-64 has it
    return true;
  }

  // In the thread. Signals are blocked.
  void Run() {
    const bool apart = syscall(kCloseRange, 0, ~0U, kUnshared) == 0;
    if (apart)
      Mark();
    else
      FailAndWait();
    timespec used{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    process.header->beside_nanoseconds +=
        static_cast<Count>(used.tv_sec) * 1'000'000'000 + static_cast<Count>(used.tv_nsec);
  }

  void FailAndWait() {
    failed_ = true;
    SetPhase(Phase::kPrepared);
    AwaitOtherThan(Phase::kPrepared);
  }

  // A mark that was set late, for an object that was new in a sweep, is cleared, or else all of the
  // object is written later than its page is watched.
  void Mark() {
    const platform::WriteWatch watch;
    const platform::Pagemap pagemap;
    Watch(watch);
    if (!watch.IsOpen() || !VisitWritten<true>(pagemap, [](Address, Address) {}))
      return FailAndWait();
    metadata.ClearMarks();
    SetPhase(Phase::kPrepared);
    AwaitOtherThan(Phase::kPrepared);
    while (Now() == Phase::kMarking) {
      markers.DrainBeside();
      markers.Trim();  // which can take longer than the last pause, and would be left to it
      SearchWritten(watch, pagemap);
      SetPhase(Phase::kMarked);
      AwaitOtherThan(Phase::kMarked);
    }
    // The kernel would do it all at once as the thread ends.
    metadata.EachStretch([&](Address from, Address to) {
      InPieces(from, to, [&](std::uint64_t& at, std::uint64_t end) {
        watch.Unwatch(at, end);
        at = end;
        return true;
      });
    });
  }

  // The mappings that hold objects. What is not watched counts as written to.
  void Watch(const platform::WriteWatch& watch) {
    platform::MapsReader maps(rows_);
    for (platform::MapsRow row; maps.Next(row);)
      if (row.writable && metadata.HasObjects(row.start, row.end)) watch.Watch(row.start, row.end);
  }

  // Until few pages are left for the pause, or it does not help that threads wait.
  void SearchWritten(const platform::WriteWatch& watch, const platform::Pagemap& pagemap) {
    std::size_t before = ~std::size_t{0};
    std::size_t stalls = 0;
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      Watch(watch);
      std::size_t bytes = 0;
      const bool good = VisitWritten<true>(pagemap, [&](Address from, Address to) {
        bytes += to - from;
        EachMarkedOn(from, to, [](const Span& span) { markers.SearchBeside(span); });
      });
      if (!good) markers.Overflow();  // all that is marked is searched again
      if (bytes <= kFewPages * kPageBytes) {
        caught_up_at_ = Nanoseconds();
        break;
      }
      if (stalls == kMostStalls) break;
      stalls += bytes > before - before / 4;
      outpaced_.store(stalls != 0, std::memory_order_relaxed);
      before = bytes;
    }
    outpaced_.store(false, std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> phase_ = 0;
  std::atomic<bool> outpaced_ = false;
  bool failed_ = false;
  unsigned again_ = 0;
  Count caught_up_at_ = 0;  // when few pages were left
  char* stack_ = nullptr;
  void** storage_ = nullptr;
  unsigned char rows_[1 << 14]{};  // as the kernel tells of mappings
};

constinit inline Beside beside;

}  // namespace tare
