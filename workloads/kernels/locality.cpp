// Where the allocator puts objects that are used together.
//
// Lists are grown in turn, so neighbours in a list are not neighbours in time, after a first
// generation of objects has been freed in random order and left its holes. Then every list is
// walked again and again. An allocator that fills scattered holes makes each step a cache or TLB
// miss; one that gives out fresh runs of memory keeps the walk short. Allocation is a small part of
// the time: what is measured is what placement costs the program later.
#include <algorithm>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "locality",
    "Lists are built in a heap full of random holes and then walked many times.\n"
    "Shows what the placement of objects costs or brings the program later: cache\n"
    "and TLB misses, not time in malloc.",
    0};

constexpr std::size_t kObjects = 400'000;
constexpr std::size_t kLists = 64;
constexpr std::size_t kWalksAtScaleOne = 20;

struct Link {
  Link* next;
  std::uint64_t value;
  std::uint64_t padding[4];  // 48 bytes: no power of two, and smaller than a cache line
};

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);

  std::vector<Link*> first;
  for (std::size_t i = 0; i < kObjects; ++i) first.push_back(new Link{nullptr, i, {}});
  for (std::size_t i = first.size(); i > 1; --i) std::swap(first[i - 1], first[random.below(i)]);
  const std::size_t stay = first.size() / 4;
  while (first.size() > stay) {
    delete first.back();
    first.pop_back();
  }

  std::vector<Link*> lists(kLists);
  for (std::size_t i = 0; i < kObjects; ++i) {
    Link*& head = lists[i % kLists];
    head = new Link{head, random.next(), {}};
  }

  std::uint64_t sum = 0;
  const std::size_t walks = options.steps(kWalksAtScaleOne);
  for (std::size_t walk = 0; walk < walks; ++walk) {
    for (Link* list : lists) {
      for (Link* link = list; link != nullptr; link = link->next) {
        sum += link->value;
        link->value += walk;
      }
    }
  }
  for (Link* list : lists) {
    while (list != nullptr) delete std::exchange(list, list->next);
  }
  for (Link* link : first) {
    sum += link->value;
    delete link;
  }
  return kernel::finish(sum);
}
