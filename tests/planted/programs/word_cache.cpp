// Normalises words by way of a cache, then counts pairs of them. The cache is not read by then.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

template <typename Key, typename Made>
class Memory {
 public:
  template <typename Make>
  const Made& of(const Key& key, Make make) {
    const auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    return made_.emplace(key, make(key)).first->second;  // planted: free-earlier
  }
  void clear() { decltype(made_)().swap(made_); }

 private:
  std::unordered_map<Key, Made> made_;
};

std::uint64_t normal(std::uint64_t word) {
  for (int round = 0; round < 24; ++round) word = (word ^ (word >> 29)) * 0xbf58476d1ce4e5b9;
  return word;
}

class Random {
 public:
  std::uint32_t next() { return (seed_ = seed_ * 1664525 + 1013904223) >> 8; }

 private:
  std::uint32_t seed_ = 3;
};

}  // namespace

int main() {
  constexpr std::size_t words = 150000, pairs = 700000;
  Memory<std::uint64_t, std::uint64_t> cache;
  Random random;
  std::vector<std::uint64_t> text;
  text.reserve(words);
  for (std::size_t i = 0; i < words; ++i)
    text.push_back(
        cache.of(random.next() % 70000, [](std::uint64_t word) { return normal(word); }));
#ifdef FIXED
  cache.clear();
#endif
  std::vector<std::uint32_t> counts(pairs);
  for (int round = 0; round < 40; ++round)
    for (std::size_t i = 1; i < text.size(); ++i) ++counts[(text[i - 1] * 31 + text[i]) % pairs];
  std::uint64_t sum = 0;
  for (const std::uint32_t each : counts) sum += each * each;
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
