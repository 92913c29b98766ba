// Region emulation against a model: random operations on nested regions, and on an obstack.
// Arguments: a seed and how many operations. Prints how many objects were allocated in all.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tare/region_emulation.hpp"

namespace {

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

void Check(bool holds, const char* what) {
  if (!holds) Fail(what);
}

std::set<void*> alive;  // what the malloc underneath has given and not got back
std::size_t given = 0;
bool is_short = false;  // of memory

struct Heap {
  static void* Allocate(std::size_t bytes) {
    if (is_short) return nullptr;
    void* const object = std::malloc(bytes);
    Check(alive.insert(object).second, "an object was given twice");
    ++given;
    return object;
  }
  static void Free(void* object) {
    Check(alive.erase(object) == 1, "free of what is not alive");
    std::free(object);
  }
};

// Short of memory together with the heap.
struct Memory {
  static void* Resize(void* memory, std::size_t bytes) {
    return is_short ? nullptr : std::realloc(memory, bytes);
  }
  static void Free(void* memory) { std::free(memory); }
};

using Region = tare::EmulatedRegion<Heap, Memory>;

struct Modelled {
  std::unique_ptr<Region> region;
  Modelled* parent = nullptr;
  std::vector<void*> objects;
};

bool IsInside(const Modelled* one, const Modelled* other) {
  while (one != nullptr && one != other) one = one->parent;
  return one == other;
}

std::size_t ObjectsOf(const std::list<Modelled>& regions) {
  std::size_t sum = 0;
  for (const Modelled& each : regions) sum += each.objects.size();
  return sum;
}

void Regions(std::mt19937& source, int operations) {
  std::list<Modelled> regions;
  const auto below = [&](std::size_t limit) { return source() % limit; };
  const auto any = [&] {
    auto at = regions.begin();
    std::advance(at, static_cast<long>(below(regions.size())));
    return at;
  };
  for (int operation = 0; operation < operations; ++operation) {
    const auto choice = below(100);
    if (regions.empty() || (choice < 2 && regions.size() < 12)) {
      Modelled& made = regions.emplace_back();
      made.parent = regions.size() > 1 && below(3) > 0 ? &regions.front() : nullptr;
      made.region = made.parent != nullptr ? std::make_unique<Region>(*made.parent->region)
                                           : std::make_unique<Region>();
    } else if (choice < 60) {
      auto at = any();
      is_short = below(50) == 0;
      void* const object = at->region->Allocate(1 + below(100));
      Check((object == nullptr) == is_short, "memory was short, or not");
      is_short = false;
      if (object != nullptr) at->objects.push_back(object);
    } else if (choice < 95) {
      auto at = any();
      if (at->objects.empty()) continue;
      const std::size_t place = below(3) == 0 ? at->objects.size() - 1 : below(at->objects.size());
      at->region->Free(at->objects[place]);
      at->objects.erase(at->objects.begin() + static_cast<long>(place));
    } else if (choice < 98) {
      auto at = any();
      at->region->Clear();
      for (Modelled& each : regions)
        if (IsInside(&each, &*at)) each.objects.clear();
    } else {
      auto at = any();
      // Those inside are cleared with it, and stand alone afterwards.
      for (Modelled& each : regions) {
        if (&each != &*at && IsInside(&each, &*at)) each.objects.clear();
        if (each.parent == &*at) each.parent = nullptr;
      }
      regions.erase(at);
    }
    Check(alive.size() == ObjectsOf(regions), "the objects alive are those of the model");
  }
  for (const Modelled& each : regions)
    for (void* object : each.objects) Check(alive.contains(object), "an object of the model lives");
  while (!regions.empty()) {
    for (Modelled& each : regions)
      if (each.parent == &regions.front()) each.parent = nullptr;
    regions.pop_front();
  }
  Check(alive.empty(), "nothing is left");
}

void Obstack(std::mt19937& source, int operations) {
  Region region;
  std::vector<void*> stack;
  for (int operation = 0; operation < operations; ++operation) {
    if (stack.empty() || source() % 3 > 0) {
      stack.push_back(region.Allocate(1 + source() % 60));
    } else {
      const std::size_t from = source() % stack.size();
      region.FreeFrom(stack[from]);
      stack.resize(from);
    }
    Check(alive.size() == stack.size(), "what is younger went too");
  }
  region.Free(nullptr);
  int elsewhere = 0;
  region.Free(&elsewhere);
  Check(alive.size() == stack.size(), "what is not of the region is left alone");
  region.Clear();
  Check(alive.empty(), "all went");
}

}  // namespace

int main(int, char** arguments) {
  std::mt19937 source(static_cast<unsigned>(std::atoi(arguments[1])));
  const int operations = std::atoi(arguments[2]);
  Regions(source, operations);
  Obstack(source, operations / 10);
  std::printf("%zu\n", given);
}
