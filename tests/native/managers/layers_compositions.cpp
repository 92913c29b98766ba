// Heaps composed of layers, each against a model: objects are aligned, apart, and keep their bytes.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "tare/layers/all.hpp"

namespace {

using namespace tare::layers;

#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (false)

using Plain = Region<Pages>;
using Powers = SizeClasses<PowersOfTwo<4, 20>, SizeHeaders<Plain>>;
using QuickFit = QuickLists<BoundaryTags<Pages, FirstFit>, 8>;
using Lea1993 = BoundaryTags<Pages, FirstFit>;
using WindowsXp = QuickLists<BoundaryTags<Pages, BestFit>, 127>;
using PerClass = FreeList<Plain, 64>;
using Parser = StackLike<Rising, 32 << 20>;
using Lazy = LazyTags<Rising>;
using LazyQuickFit = QuickLists<Lazy, 8>;
using Blocks4Bsd = PowerBlocks<Rising>;
using Fragments = PageFragments<Rising>;
using Hoard = ProcessorHeaps<Pages, Exponential<120, 4048>, SpinLock>;
using Mixed = SizeClasses<MultiplesThenPowers<16, 64, 40>, SizeHeaders<Plain>>;
using Observed = Counted<Locked<WindowsXp, SpinLock>>;
using Threads = ThreadCache<Locked<Lea1993, SpinLock>>;

struct Tally {
  void Allocated(void*, std::size_t bytes) { asked += bytes; }
  void Freed(void*) { ++freed; }
  std::size_t asked = 0;
  std::size_t freed = 0;
};

struct Object {
  std::size_t size;
  unsigned char fill;
};

template <typename Tested>
void TestAgainstModel(Tested& heap, std::size_t largest, int operations) {
  std::mt19937 random(1);
  std::map<unsigned char*, Object> objects;
  for (int i = 0; i < operations; ++i) {
    if (random() % 5 < 3) {
      const std::size_t size = random() % (random() % 20 == 0 ? largest : 64) + 1;
      auto* const object = static_cast<unsigned char*>(heap.Allocate(size));
      REQUIRE(object != nullptr && reinterpret_cast<std::uintptr_t>(object) % kAlignment == 0);
      const auto next = objects.lower_bound(object);
      REQUIRE(next == objects.end() || (next->first != object && object + size <= next->first));
      REQUIRE(next == objects.begin() ||
              std::prev(next)->first + std::prev(next)->second.size <= object);
      if constexpr (Sized<Tested>) REQUIRE(heap.Size(object) >= size);
      objects[object] = {size, static_cast<unsigned char>(i)};
      memset(object, i, size);
    } else if (!objects.empty()) {
      auto chosen = objects.begin();
      std::advance(chosen, random() % std::min<std::size_t>(objects.size(), 50));
      for (std::size_t at = 0; at < chosen->second.size; ++at)
        REQUIRE(chosen->first[at] == chosen->second.fill);
      heap.Free(chosen->first);
      objects.erase(chosen);
    }
  }
  for (const auto& [object, found] : objects) heap.Free(object);
}

template <SizedHeap Tested>
void TestHeap(std::size_t largest = 5000) {
  Tested heap;
  TestAgainstModel(heap, largest, 20'000);
}

template <SizedHeap Tested>
void TestThatFreedIsUsedAgain() {
  Tested heap;
  void* const first = heap.Allocate(100);
  heap.Allocate(100);
  heap.Free(first);
  REQUIRE(heap.Allocate(100) == first);
}

void TestThatNeighboursAreJoined() {
  Lea1993 heap;
  void* const first = heap.Allocate(1000);
  void* const second = heap.Allocate(1000);
  void* const third = heap.Allocate(1000);
  heap.Allocate(1);
  heap.Free(first);
  heap.Free(third);
  heap.Free(second);
  REQUIRE(heap.Allocate(3000) == first);
}

void TestThatBestFits() {
  BoundaryTags<Pages, BestFit> heap;
  void* const larger = heap.Allocate(1008);
  heap.Allocate(16);
  void* const fitting = heap.Allocate(800);
  heap.Allocate(16);
  heap.Free(fitting);
  heap.Free(larger);
  REQUIRE(heap.Allocate(800) == fitting);
}

void TestThatFreedNeighboursAreFound() {
  Lazy heap;
  void* const first = heap.Allocate(1000);
  void* const second = heap.Allocate(1000);
  void* const third = heap.Allocate(1000);
  heap.Allocate(1);
  for (void* const object : {second, first, third}) heap.Free(object);
  const std::size_t rest = 64 << 10;
  REQUIRE(heap.Allocate(rest) != nullptr);  // which searches, and joins
  REQUIRE(heap.Allocate(3000) == first);
}

template <typename Tested>
void TestThatItGrowsInPlace() {
  Tested heap;
  void* const object = heap.Allocate(100);
  void* const after = heap.Allocate(5000);
  void* const last = heap.Allocate(100);
  REQUIRE(!heap.Resize(object, 2000));
  heap.Free(after);
  REQUIRE(heap.Resize(object, 2000) && heap.Size(object) >= 2000 && heap.Size(object) < 2100);
  REQUIRE(!heap.Resize(object, 20'000) && !heap.Resize(object, SIZE_MAX));
  REQUIRE(heap.Size(last) >= 100);
}

// A small one goes into a larger block, which must serve small ones again.
template <typename Tested>
void TestThatSmallestAreUsedAgain() {
  Tested heap;
  void* const object = heap.Allocate(1);
  heap.Free(object);
  REQUIRE(heap.Allocate(16) == object);
}

void TestRising() {
  Rising source;
  char* last = static_cast<char*>(source.Take(100));
  int joined = 0;
  for (int i = 0; i < 1000; ++i) {
    char* const memory = static_cast<char*>(source.Take(8 << 10));
    memset(memory, 1, 8 << 10);
    REQUIRE(memory > last && reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
    joined += memory == last + (8 << 10) ? 1 : 0;
    last = memory;
  }
  REQUIRE(joined > 900);
  source.Give(last, 8 << 10);
  REQUIRE(source.Take(8 << 10) == last);
  REQUIRE(source.Take(SIZE_MAX) == nullptr && source.Take(SIZE_MAX / 5) == nullptr);
}

void TestFragments() {
  Fragments heap;
  std::vector<void*> small;
  for (int i = 0; i < 4096 / 64; ++i) small.push_back(heap.Allocate(50));
  void* const guard = heap.Allocate(5000);
  const auto first = reinterpret_cast<std::uintptr_t>(small[0]) / 4096;
  for (void* const object : small) {
    REQUIRE(reinterpret_cast<std::uintptr_t>(object) / 4096 == first);
    REQUIRE(heap.Size(object) == 64);
    heap.Free(object);
  }
  // The page is whole again, and serves another size.
  REQUIRE(reinterpret_cast<std::uintptr_t>(heap.Allocate(2000)) / 4096 == first);
  REQUIRE(heap.Size(guard) == 8192);
}

void TestPowerBlocks() {
  Blocks4Bsd heap;
  void* const object = heap.Allocate(100);
  REQUIRE(heap.Size(object) == 120 && heap.Size(heap.Allocate(121)) == 248);
  heap.Free(object);
  REQUIRE(heap.Allocate(120) == object);
}

// What one thread frees must serve another, through the global heap.
void TestProcessorHeaps() {
  Hoard heap;
  std::vector<char*> objects;
  for (int i = 0; i < 10'000; ++i) objects.push_back(static_cast<char*>(heap.Allocate(64)));
  const auto [least, most] = std::minmax_element(objects.begin(), objects.end());
  const char* const first = *least;
  const char* const last = *most;
  for (char* const object : objects) heap.Free(object);
  int again = 0;
  std::thread([&] {
    for (int i = 0; i < 10'000; ++i) {
      const char* const object = static_cast<char*>(heap.Allocate(64));
      again += object >= first && object <= last ? 1 : 0;
    }
  }).join();
  REQUIRE(again > 9000);
  char* const large = static_cast<char*>(heap.Allocate(1 << 20));
  memset(large, 1, 1 << 20);
  REQUIRE(heap.Size(large) == 1 << 20);
  heap.Free(large);
}

void TestAligned() {
  Aligned<Lea1993> heap;
  for (std::size_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
    char* const object = static_cast<char*>(heap.AllocateAligned(alignment, 100));
    REQUIRE(reinterpret_cast<std::uintptr_t>(object) % alignment == 0);
    REQUIRE(heap.Size(object) >= 100);
    memset(object, 1, heap.Size(object));
    heap.Free(object);
  }
  REQUIRE(heap.AllocateAligned(SIZE_MAX / 2 + 1, 1) == nullptr);
  REQUIRE(heap.AllocateAligned(32, SIZE_MAX - 32) == nullptr);
}

void TestWhatIsNotFreed() {
  NeverFreed<SizeHeaders<Plain>> region;
  void* const kept = region.Allocate(10);
  region.Free(kept);
  REQUIRE(region.Allocate(10) != kept);
  NewestFreed<SizeHeaders<Obstack<Pages>>> stack;
  void* const older = stack.Allocate(10);
  void* const newest = stack.Allocate(10);
  stack.Free(older);
  stack.Free(newest);
  REQUIRE(stack.Allocate(10) == newest);
}

void TestNesting() {
  Nested<Plain> outer;
  Nested<Plain> inner(outer);
  char* const object = static_cast<char*>(inner.Allocate(10));
  outer.Clear();
  REQUIRE(object != nullptr);
  REQUIRE(inner.Allocate(10) != nullptr);
}

void TestObstack() {
  Obstack<Pages> stack;
  void* const first = stack.Allocate(10);
  for (int i = 0; i < 10'000; ++i) memset(stack.Allocate(100), 1, 100);
  stack.Free(first);
  REQUIRE(stack.Allocate(10) == first);
}

void TestStackLike() {
  Parser heap;
  void* const first = heap.Allocate(10);
  void* const second = heap.Allocate(10);
  heap.Free(first);
  REQUIRE(heap.Allocate(10) != first);
  heap.Free(second);
  void* const third = heap.Allocate(10);
  REQUIRE(third != first);
}

void TestWhatIsSeen() {
  Observed counted;
  void* const object = counted.Allocate(100);
  counted.Free(object);
  REQUIRE(counted.GetCounts().allocations == 1 && counted.GetCounts().frees == 1);
  REQUIRE(counted.GetCounts().live_bytes == 0 && counted.GetCounts().most_live_bytes >= 100);
  Traced<Lea1993, Tally> traced;
  traced.Free(traced.Allocate(7));
  REQUIRE(traced.GetObserver().asked == 7 && traced.GetObserver().freed == 1);
}

void TestThreads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      Threads heap;
      TestAgainstModel(heap, 5000, 5000);
    });
  for (std::thread& thread : threads) thread.join();
}

void TestBounds() {
  Lea1993 tags;
  Plain region;
  Powers classes;
  REQUIRE(tags.Allocate(SIZE_MAX) == nullptr && region.Allocate(SIZE_MAX) == nullptr);
  REQUIRE(classes.Allocate(SIZE_MAX - 8) == nullptr);
  Parser parser;
  REQUIRE(parser.Allocate(SIZE_MAX) == nullptr && parser.Allocate(33 << 20) == nullptr);
}

}  // namespace

int main() {
  TestHeap<Powers>();
  TestHeap<QuickFit>();
  TestHeap<Lea1993>();
  TestHeap<WindowsXp>();
  TestHeap<PerClass>(64);
  TestHeap<Parser>(100);
  TestHeap<Observed>();
  TestHeap<Lazy>();
  TestHeap<Lazy>(100'000);
  TestHeap<LazyQuickFit>();
  TestHeap<Blocks4Bsd>(100'000);
  TestHeap<Fragments>();
  TestHeap<Fragments>(100'000);
  TestHeap<Hoard>();
  TestHeap<Hoard>(100'000);
  TestHeap<Mixed>();
  TestHeap<Aligned<Lazy>>();
  TestThatFreedIsUsedAgain<Powers>();
  TestThatFreedIsUsedAgain<QuickFit>();
  TestThatFreedIsUsedAgain<Lea1993>();
  TestThatFreedIsUsedAgain<WindowsXp>();
  TestThatNeighboursAreJoined();
  TestThatFreedNeighboursAreFound();
  TestThatItGrowsInPlace<BoundaryTags<Rising, BestFit>>();
  TestThatItGrowsInPlace<Lazy>();
  TestThatSmallestAreUsedAgain<QuickFit>();
  TestThatSmallestAreUsedAgain<LazyQuickFit>();
  TestThatSmallestAreUsedAgain<Threads>();
  TestRising();
  TestFragments();
  TestPowerBlocks();
  TestProcessorHeaps();
  TestAligned();
  TestWhatIsNotFreed();
  TestThatBestFits();
  TestNesting();
  TestObstack();
  TestStackLike();
  TestWhatIsSeen();
  TestThreads();
  TestBounds();
  puts("ok");
}
