// The collector's tables and its markers without a collector: random sequences of operations,
// compared with a model. marksweep_harness SEED ROUNDS
//
// Objects are placed at random into an arena that crosses a leaf of the metadata, and are filled
// with pointers to each other; what each marker finds must be what a search through the model
// finds. Ranges of owners are compared with a list of pages.

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "marker.hpp"
#include "metadata.hpp"
#include "ranges.hpp"
#include "world.hpp"

namespace {

using tare::Address;
using tare::kGranule;
using tare::metadata;

std::mt19937_64 random_bits;

std::size_t Below(std::size_t bound) { return random_bits() % bound; }

void Check(bool good, const char* what) {
  if (good) return;
  std::printf("wrong: %s\n", what);
  std::exit(1);
}

constexpr std::size_t kArena = 8 << 20;

// In the middle, a leaf begins.
Address MapArena() {
  constexpr std::size_t kRoom = 2 * tare::kLeafBytes;
  void* const room = mmap(nullptr, kRoom + kArena, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Check(room != MAP_FAILED, "no arena");
  const Address from = reinterpret_cast<Address>(room) + kArena;
  return ((from + tare::kLeafBytes - 1) & ~(tare::kLeafBytes - 1)) - kArena / 2;
}

using Objects = std::map<Address, std::size_t>;  // start, bytes

Objects::const_iterator Containing(const Objects& objects, Address address) {
  auto found = objects.upper_bound(address);
  if (found == objects.begin()) return objects.end();
  --found;
  return address < found->first + found->second ? found : objects.end();
}

bool IsFree(const Objects& objects, Address from, std::size_t bytes) {
  const auto next = objects.lower_bound(from);
  return (next == objects.end() || next->first >= from + bytes) &&
         Containing(objects, from) == objects.end();
}

std::size_t RandomBytes() {
  switch (Below(20)) {
    case 0:
      return kGranule * (1 + Below(40000));
    case 1:
    case 2:
      return kGranule * (1 + Below(1500));
    default:
      return kGranule * (1 + Below(12));
  }
}

std::size_t PagesOf(const Objects& objects) {
  std::set<Address> pages;
  for (const auto& [start, bytes] : objects)
    for (Address page = tare::PageDown(start); page < start + bytes; page += tare::kPageBytes)
      pages.insert(page);
  return pages.size();
}

void EnterAndRemove(Objects& objects, Address arena, int operations) {
  for (int i = 0; i < operations; ++i) {
    const Address at = arena + Below(kArena / kGranule) * kGranule;
    if (Below(3) != 0) {
      const std::size_t bytes = std::min(RandomBytes(), arena + kArena - at);
      if (!IsFree(objects, at, bytes)) continue;
      Check(metadata.Enter(at, bytes), "Enter");
      objects[at] = bytes;
    } else if (const auto found = Containing(objects, at); found != objects.end()) {
      Check(metadata.Remove(found->first) == found->second, "bytes of what is removed");
      Check(metadata.Remove(found->first) == 0, "removed twice");
      objects.erase(found);
    } else {
      Check(metadata.Remove(at) == 0, "removed what is not there");
    }
  }
}

void CompareWithModel(const Objects& objects, Address arena) {
  for (int i = 0; i < 20000; ++i) {
    const Address at = arena + Below(kArena);
    const auto expected = Containing(objects, at);
    const auto found = metadata.Find(at);
    Check(found.start == (expected == objects.end() ? 0 : expected->first), "Find");
    if (found.start == 0) continue;
    Check(metadata.BytesOf(found.start) == expected->second, "BytesOf");
    Check(found.end == 0 || found.end == found.start + expected->second, "Found::end");
  }
  const std::size_t pages = PagesOf(objects);
  Check(metadata.ActivePages() == pages, "ActivePages");
  for (int i = 0; i < 200; ++i) {
    const Address from = arena + Below(kArena / 4096) * 4096;
    const Address to = std::min(from + (1 + Below(64)) * 4096, arena + kArena);
    const bool any =
        Containing(objects, from) != objects.end() || !IsFree(objects, from, to - from);
    Check(metadata.HasObjects(from, to) == any, "HasObjects");
  }
}

// Random words into all objects: most of them lead to an object, a few beside one.
void Connect(const Objects& objects, Address arena) {
  for (const auto& [start, bytes] : objects) {
    auto* const words = reinterpret_cast<Address*>(start);
    memset(words, 0, bytes);
    for (std::size_t i = 0; i < std::min<std::size_t>(3, bytes / 8); ++i) {
      const auto target = Containing(objects, arena + Below(kArena));
      const std::size_t place = Below(bytes / 8);
      if (target != objects.end()) words[place] = target->first + Below(target->second);
      if (Below(4) == 0) words[place] = random_bits();
    }
  }
}

std::set<Address> Reachable(const Objects& objects, const std::vector<Address>& from) {
  std::set<Address> reached;
  std::vector<Address> left = from;
  while (!left.empty()) {
    const auto object = Containing(objects, left.back());
    left.pop_back();
    if (object == objects.end() || !reached.insert(object->first).second) continue;
    const auto* const words = reinterpret_cast<const Address*>(object->first);
    left.insert(left.end(), words, words + object->second / 8);
  }
  return reached;
}

std::set<Address> TakeMarks() {
  std::set<Address> marked;
  metadata.VisitBlocks([&](Address base, tare::Block& block) {
    for (tare::Half bits = tare::Marked(block.state) & tare::Starts(block.bounds); bits != 0;
         bits &= bits - 1)
      marked.insert(base + tare::FirstIn(bits) * kGranule);
    block.state = 0;
  });
  return marked;
}

// What is marked in some pages, granule by granule.
void CompareMarked(const Objects& objects, const std::set<Address>& marked, Address arena) {
  for (int i = 0; i < 50; ++i) {
    const Address from = arena + Below(kArena / 4096) * 4096;
    const Address to = std::min(from + (1 + Below(16)) * 4096, arena + kArena);
    std::set<Address> expected, found;
    for (Address at = from; at < to; at += kGranule) {
      const auto object = Containing(objects, at);
      if (object != objects.end() && marked.count(object->first) != 0) expected.insert(at);
    }
    metadata.EachMarked(from, to, [&](Address begin, Address end) {
      Check(begin >= from && begin < end && end <= to, "a stretch of marked objects");
      for (Address at = begin; at < end; at += kGranule) found.insert(at);
    });
    Check(found == expected, "EachMarked");
  }
}

// Each object lies in a stretch.
void CompareStretches(const Objects& objects) {
  std::vector<std::pair<Address, Address>> stretches;
  metadata.EachStretch([&](Address from, Address to) { stretches.emplace_back(from, to); });
  for (const auto& [start, bytes] : objects)
    for (Address at = start; at < start + bytes; at += 4096)
      Check(std::any_of(stretches.begin(), stretches.end(),
                        [at](const auto& each) { return each.first <= at && at < each.second; }),
            "EachStretch");
}

void Mark(const Objects& objects, Address arena) {
  std::vector<Address> from;
  for (std::size_t count = Below(30); count > 0; --count) from.push_back(arena + Below(kArena));
  from.resize((from.size() + 1) & ~std::size_t{1});
  const std::set<Address> expected = Reachable(objects, from);
  std::size_t bytes = 0;
  for (const Address start : expected) bytes += objects.at(start);
  const tare::Span root{reinterpret_cast<Address>(from.data()),
                        reinterpret_cast<Address>(from.data() + from.size())};
  static tare::Marker markers[4];
  static tare::SharedWork shared;
  markers[0].Begin();
  shared.Begin(1);
  markers[0].MarkAlone(&root, 1, shared);
  Check(!shared.Overflowed(), "overflow");
  Check(markers[0].objects == expected.size() && markers[0].bytes == bytes, "counts of a marker");
  markers[0].MarkAgain(shared);
  CompareMarked(objects, expected, arena);
  Check(TakeMarks() == expected, "marks of one marker");
  shared.Begin(4);
  shared.Give(&root, 1);
  std::vector<std::thread> threads;
  for (tare::Marker& marker : markers) {
    marker.Begin();
    threads.emplace_back([&marker] { marker.MarkTogether(shared); });
  }
  std::size_t together = 0;
  for (std::thread& each : threads) each.join();
  for (const tare::Marker& marker : markers) together += marker.objects;
  Check(together == expected.size(), "counts of four markers");
  Check(TakeMarks() == expected, "marks of four markers");
}

// Threads that each have every fourth granule of the same blocks.
void EnterTogether(Address arena) {
  constexpr std::size_t kThreads = 4, kEach = 3000;
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([=] {
      for (int round = 0; round < 3; ++round)
        for (std::size_t i = 0; i < kEach; ++i) {
          const Address at = arena + (i * kThreads + thread) * kGranule;
          Check(metadata.Enter(at, kGranule), "Enter together");
          if (i % 3 != 0) Check(metadata.Remove(at) == kGranule, "Remove together");
        }
    });
  for (std::thread& each : threads) each.join();
  const std::size_t bytes = kThreads * kEach * kGranule;
  Check(metadata.ActivePages() == (bytes + 4095) / 4096, "pages of threads");
  for (std::size_t i = 0; i < kThreads * kEach; ++i) {
    const bool kept = i / kThreads % 3 == 0;
    Check(metadata.Remove(arena + i * kGranule) == (kept ? kGranule : 0), "what threads left");
  }
  Check(metadata.ActivePages() == 0, "pages without objects");
}

// Short ranges become a list that has to grow.
void CompareRanges(std::size_t pages, std::size_t longest) {
  constexpr Address kBase = 0x10000000;
  tare::Ranges ranges;
  std::vector<tare::Owner> model(pages, tare::Owner::kNobody);
  for (std::size_t i = 0; i < 6 * pages; ++i) {
    const std::size_t from = Below(pages);
    const std::size_t to = from + Below(std::min(pages - from, longest) + 1);
    const auto owner = static_cast<tare::Owner>(Below(3));
    ranges.Assign(kBase + from * 4096, kBase + to * 4096, owner);
    for (std::size_t page = from; page < to; ++page) model[page] = owner;
    const std::size_t page = Below(pages);
    Check(ranges.OwnerOf(kBase + page * 4096 + Below(4096)) == model[page], "OwnerOf");
  }
  std::size_t borders = 0;
  for (std::size_t page = 0; page < pages; ++page)
    borders += model[page] != tare::Owner::kNobody && (page == 0 || model[page] != model[page - 1]);
  std::size_t listed = 0;
  const tare::Ranges::Range* range = ranges.FirstEndingAfter(0);
  for (Address end = 0; range != ranges.End(); range = ranges.FirstEndingAfter(end)) {
    Check(range->from >= end && range->from < range->to, "ranges ascend");
    end = range->to;
    listed += range->from < kBase + pages * 4096;
  }
  Check(listed == borders, "neighbours of one owner are one range");
}

// What a fork can leave of an object that another thread was entering or removing: where it goes on
// is noted, where it starts is not.
void FindHalfEntered(Address arena) {
  constexpr Address kSegment = Address{1} << tare::kSegmentShift;
  for (const std::size_t bytes : {kSegment, 10 * kSegment}) {
    const Address object = arena + kSegment - kGranule, last = object + bytes - kGranule;
    for (const bool ends : {false, true}) {
      Check(metadata.Enter(object, bytes), "Enter a long object");
      tare::Word& start = metadata.BlockOf(object)->bounds;
      tare::Word& end = metadata.BlockOf(last)->bounds;
      const tare::Word whole_start = start, whole_end = end;
      start &= ~tare::StartBit(tare::GranuleOf(object));
      if (!ends) end &= ~tare::EndBit(tare::GranuleOf(last));
      for (Address at = object; at < object + bytes; at += kGranule)
        Check(metadata.Find(at).start == 0, "half an object was found");
      start = whole_start;
      end = whole_end;
      Check(metadata.Remove(object) == bytes, "a whole object was not");
    }
  }
}

// A thread that has seen a stop, but comes when that was given up, is in nobody's list.
void ParkLate() {
  tare::ParkedThreads parked;
  tare::Parked first{}, second{}, late{};
  parked.Begin(7);
  Check(parked.Add(first, 7) && parked.Add(second, 7), "Add");
  Check(parked.Size() == 2 && parked.Last() == &second && second.next == &first, "two parked");
  parked.Begin(8);
  Check(!parked.Add(late, 7) && parked.Size() == 0, "late, and nobody is stopped");
  parked.Begin(9);
  Check(!parked.Add(late, 7) && parked.Last() == nullptr, "late for the next stop");
  Check(parked.Add(late, 9) && parked.Size() == 1 && late.next == nullptr, "in time for it");
}

}  // namespace

int main(int count, char** values) {
  if (count != 3) return 2;
  random_bits.seed(static_cast<unsigned>(atoi(values[1])));
  const Address arena = MapArena();
  ParkLate();
  EnterTogether(arena);
  FindHalfEntered(arena);
  Objects objects;
  for (int round = 0; round < atoi(values[2]); ++round) {
    EnterAndRemove(objects, arena, 3000);
    CompareWithModel(objects, arena);
    CompareStretches(objects);
    Connect(objects, arena);
    Mark(objects, arena);
  }
  CompareRanges(500, 500);
  CompareRanges(5000, 3);
  CompareRanges(20000, 2);
  return 0;
}
