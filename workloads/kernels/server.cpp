// A server: threads replace objects of random size in a table, then hand the table to a new thread.
//
// After Larson and Krishnan's benchmark. Each worker throws out random objects of its table and
// puts new ones in; from time to time the worker ends and a new thread takes the table over, so
// that most objects are freed by another thread than the one that allocated them. Shows how an
// allocator scales, and what it does with the memory of threads that have ended, at constant load.
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "server",
    "Threads replace random objects in a table; a new thread takes the table over\n"
    "from time to time (after Larson and Krishnan).\n"
    "Shows scaling under a steady server load with objects that outlive the thread\n"
    "which allocated them.",
    2};

constexpr std::size_t kGenerationsAtScaleOne = 300;
constexpr std::size_t kReplacements = 50'000;  // each generation
constexpr std::size_t kSlots = 10'000;
constexpr std::size_t kMinSize = 10;
constexpr std::size_t kMaxSize = 500;

using Table = std::vector<kernel::Block>;

std::uint64_t replace(Table& table, kernel::Random random) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kReplacements; ++i) {
    kernel::Block& slot = table[random.below(table.size())];
    sum += kernel::drop(slot);
    slot = kernel::make_block(random.between(kMinSize, kMaxSize), random.next());
  }
  return sum;
}

std::uint64_t serve(std::size_t generations, std::uint64_t seed, std::uint64_t lane) {
  std::uint64_t sum = 0;
  Table table(kSlots);
  for (std::size_t i = 0; i < generations; ++i) {
    std::thread worker([&, i] { sum += replace(table, kernel::Random(seed, (lane << 32) + i)); });
    worker.join();
  }
  for (kernel::Block& slot : table) sum += kernel::drop(slot);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  const std::size_t generations = options.steps(kGenerationsAtScaleOne);
  std::vector<std::uint64_t> sums(options.threads);
  std::vector<std::thread> lanes;
  for (unsigned i = 0; i < options.threads; ++i) {
    lanes.emplace_back([&, i] { sums[i] = serve(generations, options.seed, i); });
  }
  for (std::thread& lane : lanes) lane.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return kernel::finish(sum);
}
