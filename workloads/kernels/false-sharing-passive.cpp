// False sharing that a program starts and the allocator keeps alive.
//
// The main thread allocates small neighbouring objects and gives one to each worker. The worker
// frees it and goes on allocating, writing and freeing objects of the same size. An allocator that
// gives the freed piece of the shared line back to the worker keeps the workers on one line for
// good; one that returns it to the owner's heap ends the sharing.
#include <atomic>
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "false-sharing-passive",
    "The main thread gives neighbouring objects to the workers, which free them and\n"
    "allocate, write and free objects of the same size.\n"
    "Shows whether the allocator reuses the pieces of a line that was shared\n"
    "(passive false sharing).",
    2};

constexpr std::size_t kRoundsAtScaleOne = 500;
constexpr std::size_t kObjects = 1'000;  // each worker, each round
constexpr std::size_t kWrites = 4'000;

using Counter = std::atomic<std::uint64_t>;

std::uint64_t use(Counter& counter) {
  // Atomic so that each write reaches the cache; relaxed, so that it is a plain store.
  for (std::size_t write = 0; write < kWrites; ++write) {
    counter.store(counter.load(std::memory_order_relaxed) + write, std::memory_order_relaxed);
  }
  return kernel::mix(counter.load(std::memory_order_relaxed));
}

std::uint64_t work(Counter* given, kernel::Random random) {
  std::uint64_t sum = use(*given);
  delete given;
  for (std::size_t i = 1; i < kObjects; ++i) {
    auto* counter = new Counter(random.next());
    sum += use(*counter);
    delete counter;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  const std::size_t rounds = options.steps(kRoundsAtScaleOne);
  kernel::Random random(options.seed, 0);
  std::vector<std::uint64_t> sums(options.threads);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<Counter*> gifts;
    for (unsigned i = 0; i < options.threads; ++i) gifts.push_back(new Counter(random.next()));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < options.threads; ++i) {
      const kernel::Random own(options.seed, 1 + round * options.threads + i);
      threads.emplace_back([&, i, own] { sums[i] += work(gifts[i], own); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return kernel::finish(sum);
}
