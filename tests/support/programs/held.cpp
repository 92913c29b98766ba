// A map that is done with before the peak, and destroyed after it. FIXED: it is cleared in time.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct Order {
  std::string name;
  int number;
};

static std::map<int, Order> load(int count) {
  std::map<int, Order> orders;
  for (int i = 0; i < count; ++i)
    orders[i] = {"an order whose name is too long to lie in the string", i};
  return orders;
}

static long total(const std::map<int, Order>& orders) {
  long sum = 0;
  for (const auto& [key, order] : orders)
    sum += order.number + static_cast<long>(order.name.size());
  return sum;
}

static long work(int rounds) {
  std::vector<std::vector<int>> rows;
  rows.reserve(static_cast<std::size_t>(rounds));
  long sum = 0;
  for (int i = 0; i < rounds; ++i) {
    rows.emplace_back(1000, i);
    for (int each : rows.back()) sum += each;
  }
  for (const auto& row : rows) sum += row[5];
  return sum;
}

int main() {
  auto orders = load(10000);
  long sum = total(orders);
#ifdef FIXED
  orders.clear();
#endif
  sum += work(800);
  std::printf("%ld\n", sum);
}
