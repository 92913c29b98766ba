// Keeps entries of a catalogue, each with room for a comment that nobody writes.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

constexpr std::size_t comment_bytes = 200;

struct Entry {
  explicit Entry(std::uint64_t number) : key(number * 0x9e3779b97f4a7c15) {}
  std::uint64_t key;
  std::unique_ptr<char[]> comment;
};

template <typename Buffer>
Buffer room(std::size_t bytes) {
  return std::make_unique_for_overwrite<char[]>(bytes);  // planted: never-used
}

class Catalogue {
 public:
  explicit Catalogue(std::size_t entries) { entries_.reserve(entries); }
  void add(std::uint64_t number) {
    Entry entry(number);
#ifndef FIXED
    entry.comment = room<decltype(entry.comment)>(comment_bytes);
#endif
    entries_.push_back(std::move(entry));
  }
  void comment(std::size_t at, const std::string& text) {
    Entry& entry = entries_[at];
    if (!entry.comment) entry.comment = room<decltype(entry.comment)>(comment_bytes);
    text.copy(entry.comment.get(), comment_bytes);
  }
  std::uint64_t digest(std::uint64_t sum) const {
    for (const Entry& each : entries_) sum = sum * 31 + each.key;
    return sum;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t entries = 60000;
  Catalogue catalogue(entries);
  for (std::size_t i = 0; i < entries; ++i) catalogue.add(i);
  for (int i = 1; i < argc; ++i) catalogue.comment(static_cast<std::size_t>(i), argv[i]);
  std::vector<std::uint64_t> digests(6 * entries);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < digests.size(); ++i)
    digests[i] = sum = i % (entries / 100) == 0 ? catalogue.digest(sum) : sum * 31 + i;
  for (const std::uint64_t each : digests) sum ^= each;
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
