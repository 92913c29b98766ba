// Collects points of a curve into a vector whose size is known, without a word of it.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

struct Point {
  double x, y, z;
  std::uint64_t number;
};

template <typename Value, typename Make>
std::vector<Value> collected(std::size_t count, Make make) {
  std::vector<Value> values;
#ifdef FIXED
  values.reserve(count);
#endif
  for (std::size_t i = 0; i < count; ++i) values.push_back(make(i));  // planted: reserve
  return values;
}

}  // namespace

int main() {
  constexpr std::size_t count = 230000;
  const auto points = collected<Point>(count, [](std::size_t i) {
    const double angle = static_cast<double>(i) * 0.001;
    return Point{angle, angle * angle, std::sqrt(angle), i};
  });
  double sum = 0;
  for (int round = 1; round <= 60; ++round)
    for (const Point& each : points) sum += each.x * round + each.y / (each.z + round);
  std::printf("%.3f\n", sum);
}
