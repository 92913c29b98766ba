// Threads that sum slices of one buffer, each with a table of its own that it uses to the end.
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

std::uint64_t summed(const std::vector<std::uint32_t>& numbers, std::size_t from, std::size_t to) {
  std::vector<std::uint64_t> table(60000);
  for (int round = 0; round < 60; ++round)
    for (std::size_t i = from; i < to; ++i) table[numbers[i] % table.size()] += i;
  std::uint64_t sum = 0;
  for (const std::uint64_t each : table) sum = sum * 31 + each;
  return sum;
}

}  // namespace

int main() {
  constexpr std::size_t count = 300000, workers = 2;
  std::vector<std::uint32_t> numbers(count);
  std::uint32_t seed = 23;
  for (std::uint32_t& each : numbers) each = (seed = seed * 1664525 + 1013904223) >> 4;
  std::vector<std::uint64_t> sums(workers);
  std::vector<std::thread> threads;
  threads.reserve(workers);
  for (std::size_t i = 0; i < workers; ++i)
    threads.emplace_back(
        [&, i] { sums[i] = summed(numbers, i * count / workers, (i + 1) * count / workers); });
  for (std::thread& each : threads) each.join();
  std::printf("%llu\n", static_cast<unsigned long long>(sums[0] ^ sums[1]));
}
