// A cache of pages of all sizes, replaced at random: costly for glibc, cheap for others.
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>

namespace {

class Page {
 public:
  Page(std::size_t bytes, std::uint32_t number)
      : bytes_(bytes), text_(std::make_unique_for_overwrite<std::uint32_t[]>(bytes / 4)) {
    text_[0] = text_[bytes / 4 - 1] = number;
  }
  std::uint64_t digest() const { return bytes_ + text_[0]; }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::uint32_t[]> text_;
};

class PageCache {
 public:
  std::uint64_t renew(std::size_t at, std::size_t bytes, std::uint32_t number) {
    const std::uint64_t digest = pages_[at] ? pages_[at]->digest() : 0;
    pages_[at] = std::make_unique<Page>(bytes, number);
    return digest;
  }

 private:
  std::array<std::unique_ptr<Page>, 2000> pages_;
};

}  // namespace

int main() {
  constexpr std::uint32_t renewals = 400000;
  PageCache cache;
  std::uint32_t seed = 19;
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < renewals; ++i) {
    seed = seed * 1664525 + 1013904223;
    sum += cache.renew((seed >> 16) % 2000, 1100 + (seed >> 8) % 6000, i);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
