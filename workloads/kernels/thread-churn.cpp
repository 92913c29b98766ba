// Threads that come and go by the thousand and leave memory behind.
//
// Each short thread frees what its predecessor left, allocates its own objects, frees every second
// one, and leaves the rest to its successor. Shows the price of setting up and tearing down
// per-thread caches, and whether the memory in the cache of a thread that has ended is lost or
// adopted.
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "thread-churn",
    "Thousands of short threads; each frees what the one before it left and leaves\n"
    "half of its own objects to the next.\n"
    "Shows the cost of per-thread caches at thread start and end, and memory lost\n"
    "with threads that have ended.",
    2};

constexpr std::size_t kThreadsAtScaleOne = 30'000;
constexpr std::size_t kObjects = 400;  // each thread
constexpr std::size_t kMaxSize = 1'024;

std::uint64_t visit(std::vector<kernel::Block>& left, kernel::Random random) {
  std::uint64_t sum = 0;
  for (kernel::Block& block : left) sum += kernel::drop(block);
  left.clear();
  for (std::size_t i = 0; i < kObjects; ++i) {
    kernel::Block block = kernel::make_block(random.between(16, kMaxSize), random.next());
    if (i % 2 == 0) {
      left.push_back(block);
    } else {
      sum += kernel::drop(block);
    }
  }
  return sum;
}

// A lane runs its short threads one after another; lanes run side by side.
std::uint64_t run_lane(std::size_t visits, std::uint64_t seed, std::uint64_t lane) {
  std::uint64_t sum = 0;
  std::vector<kernel::Block> left;
  left.reserve(kObjects);
  for (std::size_t i = 0; i < visits; ++i) {
    std::thread visitor([&, i] { sum += visit(left, kernel::Random(seed, (lane << 32) + i)); });
    visitor.join();
  }
  for (kernel::Block& block : left) sum += kernel::drop(block);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  const std::size_t visits =
      (options.steps(kThreadsAtScaleOne) + options.threads - 1) / options.threads;
  std::vector<std::uint64_t> sums(options.threads);
  std::vector<std::thread> lanes;
  for (unsigned i = 0; i < options.threads; ++i) {
    lanes.emplace_back([&, i] { sums[i] = run_lane(visits, options.seed, i); });
  }
  for (std::thread& lane : lanes) lane.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return kernel::finish(sum);
}
