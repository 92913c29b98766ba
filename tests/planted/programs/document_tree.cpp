// Outlines a document, then sets its pages. The tree is kept, and its destructors read all of it.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

namespace {

std::uint64_t weight_released;

class Element {
 public:
  Element(std::uint32_t tag, std::uint32_t weight) : tag_(tag), weight_(weight) {}
  Element(const Element&) = delete;
  Element& operator=(const Element&) = delete;
  ~Element() { weight_released += weight_ + children_.size(); }

  template <typename... Parts>
  Element& add(Parts&&... parts) {
    children_.emplace_back(new Element(std::forward<Parts>(parts)...));  // planted: free-earlier
    return *children_.back();
  }
  void outline(std::vector<std::uint32_t>& lines, std::uint32_t depth) const {
    lines.push_back(tag_ * 16 + depth);
    for (const auto& child : children_) child->outline(lines, depth + 1);
  }

 private:
  std::uint32_t tag_, weight_;
  std::uint64_t style_[4] = {};
  std::vector<std::unique_ptr<Element>> children_;
};

}  // namespace

int main() {
  constexpr std::uint32_t sections = 9000, paragraphs = 6;
  constexpr std::size_t pages = 700000;
  auto root = std::make_unique<Element>(0u, 1u);
  for (std::uint32_t i = 0; i < sections; ++i) {
    Element& section = root->add(i, i % 13);
    for (std::uint32_t j = 0; j < paragraphs; ++j) section.add(i + j, j);
  }
  std::vector<std::uint32_t> lines;
  lines.reserve(1 + sections * (1 + paragraphs));
  root->outline(lines, 0);
#ifdef FIXED
  root.reset();
#endif
  std::vector<std::uint64_t> set(pages);
  for (std::size_t i = 0; i < pages; ++i) set[i] = lines[i % lines.size()] * (i + 1);
  std::uint64_t sum = 0;
  for (int round = 0; round < 30; ++round)
    for (const std::uint64_t each : set) sum = sum * 31 + each;
  root.reset();
  std::printf("%llu\n", static_cast<unsigned long long>(sum + weight_released));
}
