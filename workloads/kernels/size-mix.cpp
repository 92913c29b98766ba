// Sizes and lifetimes as real programs have them.
//
// The table below was measured on malloc, calloc and realloc of three programs of Debian 12 as the
// suite "quick" runs them, with equal weights: gcc's cc1 12.2, lua 5.4.4 and sqlite 3.40.1; sizes
// above 32 KiB (0.02% of the objects) are left out. A lifetime is counted in objects allocated
// between birth and death. Shows what an allocator brings to an ordinary single-threaded program,
// without the program: most objects are small and die at once, a few stay.
#include <algorithm>
#include <array>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "size-mix",
    "Sizes and lifetimes as measured in gcc, lua and sqlite.\n"
    "Shows what an allocator brings to an ordinary single-threaded program: most\n"
    "objects are small and die at once, a few stay.",
    0};

constexpr std::size_t kObjectsAtScaleOne = 10'000'000;

// Lifetimes below 2^4, 2^8, 2^12, 2^16 and 2^20 objects; longer ones are counted in the last.
constexpr std::size_t kAges = 5;
constexpr std::size_t kAgeBits = 4;
constexpr std::size_t kWheel = std::size_t{1} << (kAges * kAgeBits);

struct SizeClass {
  std::uint32_t up_to;                          // bytes; the class begins after the one before it
  std::uint32_t weight;                         // objects in 10,000
  std::array<std::uint32_t, kAges> age_weight;  // of each lifetime, in 1,000
};

constexpr SizeClass kClasses[] = {
    {16, 1285, {739, 149, 77, 6, 29}},    {32, 1105, {448, 99, 189, 228, 36}},
    {48, 1282, {352, 154, 207, 274, 13}}, {64, 1722, {278, 60, 270, 373, 19}},
    {80, 737, {610, 116, 138, 114, 22}},  {96, 627, {813, 114, 27, 39, 7}},
    {112, 359, {881, 40, 36, 43, 0}},     {128, 434, {812, 91, 30, 38, 29}},
    {256, 1040, {759, 68, 99, 72, 2}},    {512, 673, {873, 67, 35, 25, 0}},
    {1024, 335, {842, 69, 39, 33, 17}},   {2048, 111, {716, 204, 61, 11, 8}},
    {4096, 233, {674, 261, 39, 12, 14}},  {8192, 33, {516, 319, 117, 4, 44}},
    {16384, 20, {726, 187, 85, 2, 0}},    {32768, 4, {682, 251, 57, 0, 10}},
};

struct Object {
  Object* next;  // the next object that dies at the same moment
  std::uint32_t size;
  std::uint32_t tag;
};

std::size_t pick_class(kernel::Random& random) {
  std::size_t left = random.below(10'000);
  std::size_t chosen = 0;
  while (left >= kClasses[chosen].weight) left -= kClasses[chosen++].weight;
  return chosen;
}

std::size_t pick_size(kernel::Random& random, std::size_t chosen) {
  // The header of an object takes the whole smallest class.
  if (chosen == 0) return sizeof(Object);
  return random.between(kClasses[chosen - 1].up_to + 1, kClasses[chosen].up_to);
}

std::size_t pick_lifetime(kernel::Random& random, std::size_t chosen) {
  std::size_t left = random.below(1'000);
  std::size_t age = 0;
  while (left >= kClasses[chosen].age_weight[age]) left -= kClasses[chosen].age_weight[age++];
  // Uniform in the logarithm inside a range of lifetimes.
  const std::size_t power = std::size_t{1} << (age * kAgeBits + random.below(kAgeBits));
  return std::min(power + random.below(power), kWheel - 1);
}

Object* make(std::size_t size, std::uint64_t tag) {
  auto* object = static_cast<Object*>(kernel::checked(std::malloc(size)));
  *object = {nullptr, static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(tag)};
  const std::size_t rest = size - sizeof(Object);
  if (rest >= sizeof tag) kernel::fill(object + 1, rest, tag);
  return object;
}

std::uint64_t drop_chain(Object* chain) {
  std::uint64_t sum = 0;
  while (chain != nullptr) {
    const std::size_t rest = chain->size - sizeof(Object);
    sum += chain->tag;
    if (rest >= sizeof sum) sum += kernel::digest(chain + 1, rest);
    std::free(std::exchange(chain, chain->next));
  }
  return sum;
}

constexpr bool weights_add_up() {
  std::uint32_t all = 0;
  for (const SizeClass& one : kClasses) {
    std::uint32_t ages = 0;
    for (const std::uint32_t weight : one.age_weight) ages += weight;
    if (ages != 1'000) return false;
    all += one.weight;
  }
  return all == 10'000;
}
static_assert(weights_add_up());

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);
  std::uint64_t sum = 0;
  // wheel[moment]: the objects that die at that moment.
  std::vector<Object*> wheel(kWheel);
  const std::size_t objects = options.steps(kObjectsAtScaleOne);
  for (std::size_t now = 0; now < objects; ++now) {
    sum += drop_chain(std::exchange(wheel[now % kWheel], nullptr));
    const std::size_t chosen = pick_class(random);
    Object* object = make(pick_size(random, chosen), random.next());
    Object*& death = wheel[(now + pick_lifetime(random, chosen)) % kWheel];
    object->next = std::exchange(death, object);
  }
  for (Object* chain : wheel) sum += drop_chain(chain);
  return kernel::finish(sum);
}
