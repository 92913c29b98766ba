// Keeps the names out of long records. Each name lies between records that are freed.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

class Names {
 public:
  explicit Names(std::size_t names, std::size_t length) {
#ifdef FIXED
    text_.reserve(names * length);
    ends_.reserve(names + 1);
    ends_.push_back(0);
#else
    (void)length;
    names_.reserve(names);
#endif
  }
#ifdef FIXED
  void add(std::string_view name) {
    text_ += name;
    ends_.push_back(text_.size());
  }
  std::string_view at(std::size_t i) const {
    return std::string_view(text_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  std::string text_;
  std::vector<std::size_t> ends_;
#else
  void add(std::string_view name) {
    names_.emplace_back(name);  // planted: pinned
  }
  std::string_view at(std::size_t i) const { return names_[i]; }
  std::vector<std::string> names_;
#endif
};

std::string record(std::uint32_t number) {
  std::string text(1900 + number % 5 * 60, static_cast<char>('a' + number % 26));
  const std::string start = "customer " + std::to_string(1000000 + number) + " of the north";
  return text.replace(0, start.size(), start);
}

}  // namespace

int main() {
  constexpr std::uint32_t records = 8000, blocks = 400, values = 5000;
  constexpr std::size_t length = 30;
  Names names(records, length);
  {
    std::vector<std::string> texts;
    texts.reserve(records);
    for (std::uint32_t i = 0; i < records; ++i) {
      texts.push_back(record(i));
      names.add(std::string_view(texts.back()).substr(0, length));
    }
  }
  std::vector<std::vector<double>> tables;
  tables.reserve(blocks);
  double sum = 0;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    tables.emplace_back(values, names.at(i * 13 % records)[12]);
    for (std::uint32_t j = 0; j < 100; ++j) sum += tables.back()[j * 7] + names.at(j)[j % 20];
  }
  std::printf("%.0f\n", sum);
}
