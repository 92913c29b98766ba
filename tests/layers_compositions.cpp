// Heaps composed of layers, each against a model: objects are aligned, apart, and keep their bytes.

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
using Kingsley = SizeClasses<PowersOfTwo<4, 20>, SizeHeaders<Plain>>;
using QuickFit = QuickLists<BoundaryTags<Pages, FirstFit>, 8>;
using Lea1993 = BoundaryTags<Pages, FirstFit>;
using WindowsXp = QuickLists<BoundaryTags<Pages, BestFit>, 127>;
using PerClass = FreeList<Plain, 64>;
using Parser = StackLike<Pages, 32 << 20>;
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
  Kingsley classes;
  REQUIRE(tags.Allocate(SIZE_MAX) == nullptr && region.Allocate(SIZE_MAX) == nullptr);
  REQUIRE(classes.Allocate(SIZE_MAX - 8) == nullptr);
  Parser parser;
  REQUIRE(parser.Allocate(SIZE_MAX) == nullptr && parser.Allocate(33 << 20) == nullptr);
}

}  // namespace

int main() {
  TestHeap<Kingsley>();
  TestHeap<QuickFit>();
  TestHeap<Lea1993>();
  TestHeap<WindowsXp>();
  TestHeap<PerClass>(64);
  TestHeap<Parser>(100);
  TestHeap<Observed>();
  TestThatFreedIsUsedAgain<Kingsley>();
  TestThatFreedIsUsedAgain<QuickFit>();
  TestThatFreedIsUsedAgain<Lea1993>();
  TestThatFreedIsUsedAgain<WindowsXp>();
  TestThatNeighboursAreJoined();
  TestThatBestFits();
  TestNesting();
  TestObstack();
  TestStackLike();
  TestWhatIsSeen();
  TestThreads();
  TestBounds();
  puts("ok");
}
