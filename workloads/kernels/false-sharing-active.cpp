// False sharing that the allocator causes by itself.
//
// Every thread allocates a small object, writes to it many times, frees it, and starts again. An
// allocator that carves one cache line into objects for different threads makes the processors pass
// that line to and fro; one that gives each thread its own lines does not.
#include <atomic>
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "false-sharing-active",
    "Threads allocate small objects of their own, write to them often, and free them.\n"
    "Shows whether the allocator puts objects of different threads into one cache\n"
    "line (active false sharing).",
    2};

constexpr std::size_t kObjectsAtScaleOne = 600'000;
constexpr std::size_t kWrites = 4'000;

using Counter = std::atomic<std::uint64_t>;

std::uint64_t work(std::size_t objects, std::uint64_t seed, std::uint64_t thread) {
  kernel::Random random(seed, thread);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < objects; ++i) {
    auto* counter = new Counter(random.next());
    // Atomic so that each write reaches the cache; relaxed, so that it is a plain store.
    for (std::size_t write = 0; write < kWrites; ++write) {
      counter->store(counter->load(std::memory_order_relaxed) + write, std::memory_order_relaxed);
    }
    sum += kernel::mix(counter->load(std::memory_order_relaxed));
    delete counter;
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  const std::size_t objects = options.steps(kObjectsAtScaleOne);
  std::vector<std::uint64_t> sums(options.threads);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.emplace_back([&, i] { sums[i] = work(objects, options.seed, i); });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return kernel::finish(sum);
}
