// Counts the tokens of a text. Each token is a string of its own for a moment.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

class Counts {
 public:
  void add(std::string_view token) {
    std::uint32_t hash = 2166136261;
    for (const char each : token) hash = (hash ^ static_cast<unsigned char>(each)) * 16777619;
    ++counts_[hash % counts_.size()];
  }
  std::uint64_t digest() const {
    std::uint64_t sum = 0;
    for (const std::uint32_t each : counts_) sum = sum * 31 + each;
    return sum;
  }

 private:
  std::array<std::uint32_t, 1024> counts_{};
};

template <typename Do>
void each_token(std::string_view text, Do act) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find(' ', start);
    act(text.substr(start, end - start));
    start = end + 1;
  }
}

}  // namespace

int main() {
  constexpr std::size_t tokens = 20000, rounds = 60;
  std::string text;
  text.reserve(tokens * 32);
  for (std::size_t i = 0; i < tokens; ++i)
    text += "identifier_" + std::to_string(100000 + i * 7919 % 900000) + ' ';
  Counts counts;
#ifdef FIXED
  const auto count = [&](std::string_view word) {
    std::array<char, 32> token;
    counts.add({token.data(), word.copy(token.data(), token.size())});
  };
#else
  const auto count = [&](std::string_view word) {
    counts.add(std::string(word));  // planted: short-lived
  };
#endif
  for (std::size_t round = 0; round < rounds; ++round) each_token(text, count);
  std::printf("%llu\n", static_cast<unsigned long long>(counts.digest()));
}
