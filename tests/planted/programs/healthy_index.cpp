// Indexes numbers in a hash table of known size, asks it to the end, and lets it go.
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

class Index {
 public:
  explicit Index(std::size_t entries) : places_(2 * entries), keys_(entries) {}
  void add(std::uint32_t key, std::uint32_t at) {
    keys_[at] = key;
    std::size_t place = hash(key);
    while (places_[place] != 0) place = (place + 1) % places_.size();
    places_[place] = at + 1;
  }
  std::uint32_t find(std::uint32_t key) const {
    std::size_t place = hash(key);
    while (places_[place] != 0 && keys_[places_[place] - 1] != key)
      place = (place + 1) % places_.size();
    return places_[place];
  }

 private:
  std::size_t hash(std::uint32_t key) const { return key * 2654435761u % places_.size(); }
  std::vector<std::uint32_t> places_, keys_;
};

}  // namespace

int main() {
  constexpr std::uint32_t entries = 150000;
  Index index(entries);
  for (std::uint32_t i = 0; i < entries; ++i) index.add(i * 2654435769u, i);
  std::uint64_t sum = 0;
  for (std::uint32_t round = 0; round < 40; ++round)
    for (std::uint32_t i = 0; i < entries; ++i) sum = sum * 31 + index.find(i * 2654435769u);
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
