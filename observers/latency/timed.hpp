// A call that goes on to the allocator, timed and counted. A call that the allocator makes within
// it is not one of the program's and is not counted; nor is one of a handler that interrupts it.

#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>

#include "clock.hpp"
#include "format.hpp"
#include "long_calls.hpp"
#include "next.hpp"
#include "process.hpp"

namespace tare::latency {

// What a thread had until now.
struct Usage {
  long faults, preemptions, waits;

  static Usage Now() {
    const KeepErrno keep;
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return {usage.ru_minflt + usage.ru_majflt, usage.ru_nivcsw, usage.ru_nvcsw};
  }
};

inline void Add(Count& count) {
  if (mine.number <= kAlone)
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else
    count.fetch_add(1, std::memory_order_relaxed);
}

__attribute__((noinline)) inline void CountLong(Shard& shard, Operation operation,
                                                std::size_t bytes, std::uint64_t ticks,
                                                const Usage& before) {
  std::uint32_t causes = 0;
  if (setting.has_causes) {
    const Usage now = Usage::Now();
    causes = (now.faults != before.faults ? kFaulted : 0U) |
             (now.preemptions != before.preemptions ? kPreempted : 0U) |
             (now.waits != before.waits ? kWaited : 0U);
  }
  Add(shard.long_calls[operation][causes]);
  if (setting.has_causes) WriteLong(operation, causes, bytes, ticks);
}

inline void CountCall(Shard& shard, Operation operation, std::size_t bytes, std::uint64_t ticks,
                      const Usage& before) {
  ++mine.counted;
  Add(shard.calls[RowOf(operation, bytes)][BucketOf(ticks)]);
  Count& longest = shard.longest[operation];
  std::uint64_t known = longest.load(std::memory_order_relaxed);
  while (ticks > known && !longest.compare_exchange_weak(known, ticks, std::memory_order_relaxed)) {
  }
  if (ticks > setting.long_ticks) [[unlikely]]
    CountLong(shard, operation, bytes, ticks, before);
}

template <Operation kOperation, typename Call>
inline auto Timed(std::size_t bytes, Call call) {
  Shard* const shard = mine.is_inside ? nullptr : OwnShard();
  if (shard == nullptr) [[unlikely]]
    return call();
  mine.is_inside = true;
  const Usage before = setting.has_causes ? Usage::Now() : Usage{};
  const std::uint64_t start = Ticks();
  const auto result = call();
  const std::uint64_t ticks = Ticks() - start;
  mine.is_inside = false;
  CountCall(*shard, kOperation, bytes, ticks, before);
  return result;
}

// As Timed, of what may throw, and so does not note that it is inside: it is left out where a call
// within it was counted.
template <Operation kOperation, typename Call>
inline auto TimedThrowing(std::size_t bytes, Call call) {
  Shard* const shard = mine.is_inside ? nullptr : OwnShard();
  if (shard == nullptr) [[unlikely]]
    return call();
  const std::uint64_t counted = mine.counted;
  const Usage before = setting.has_causes ? Usage::Now() : Usage{};
  const std::uint64_t start = Ticks();
  const auto result = call();
  const std::uint64_t ticks = Ticks() - start;
  if (mine.counted == counted) CountCall(*shard, kOperation, bytes, ticks, before);
  return result;
}

// An operator of C++ behind this one. The C++ library's calls malloc or free, which count; an
// allocator's own counts itself.
template <SymbolName kSymbol, typename Result, typename... Arguments>
struct NextOperator {
  using Function = Result(Arguments...);
  static constinit inline Function* function = nullptr;
  static constinit inline bool is_missing = false, is_allocators_own = false;

  static void Find() {
    if (function != nullptr || is_missing) [[likely]]
      return;
    BeginOnce();
    Function* found = nullptr;
    mine.is_inside = true;  // a look-up that fails allocates
    is_missing = !FindNext(kSymbol.text, found);
    mine.is_inside = false;
    is_allocators_own =
        !is_missing && ObjectOf(found).dli_fbase == ObjectOf(setting.inner.malloc).dli_fbase;
    function = found;
  }
};

}  // namespace tare::latency
