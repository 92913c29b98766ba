// Keeps the last samples of sensors, in vectors reserved for far more.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

#ifdef FIXED
constexpr std::size_t expected = 40;
#else
constexpr std::size_t expected = 512;
#endif
constexpr std::size_t kept = 40;

template <typename Sample>
class Window {
 public:
  Window() {
    samples_.reserve(expected);  // planted: untouched
  }
  void add(Sample sample) {
    if (samples_.size() == kept)
      samples_[next_++ % kept] = sample;
    else
      samples_.push_back(sample);
  }
  Sample sum() const {
    Sample total = 0;
    for (const Sample each : samples_) total += each;
    return total;
  }

 private:
  std::vector<Sample> samples_;
  std::size_t next_ = 0;
};

}  // namespace

int main() {
  constexpr std::size_t sensors = 3000, rounds = 1000;
  std::vector<std::unique_ptr<Window<double>>> windows;
  windows.reserve(sensors);
  for (std::size_t i = 0; i < sensors; ++i) windows.push_back(std::make_unique<Window<double>>());
  double sum = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < sensors; ++i)
      windows[i]->add(static_cast<double>((i * 31 + round * 17) % 1009));
    for (std::size_t i = round; i < sensors; i += rounds) sum += windows[i]->sum();
  }
  std::printf("%.0f\n", sum);
}
