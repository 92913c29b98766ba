// Orders a backlog of events once, then serves from tables. The backlog is cleared, its memory
// kept.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

struct Event {
  std::uint32_t time, place;
  std::uint64_t load;
};

class Backlog {
 public:
  explicit Backlog(std::size_t events) {
    waiting_.reserve(events);  // planted: free-earlier
  }
  void add(const Event& event) { waiting_.push_back(event); }
  void deliver(std::vector<std::uint64_t>& loads) {
    for (const Event& each : waiting_) loads[each.place] += each.load ^ each.time;
    waiting_.clear();
#ifdef FIXED
    waiting_.shrink_to_fit();
#endif
  }

 private:
  std::vector<Event> waiting_;
};

}  // namespace

int main() {
  constexpr std::uint32_t events = 200000, places = 40000;
  Backlog backlog(events);
  std::uint32_t seed = 5;
  for (std::uint32_t i = 0; i < events; ++i) {
    seed = seed * 1664525 + 1013904223;
    backlog.add({i, (seed >> 8) % places, seed});
  }
  std::vector<std::uint64_t> loads(places);
  backlog.deliver(loads);
  std::vector<std::uint64_t> history(5 * places);
  for (std::size_t day = 0; day < 5; ++day)
    for (std::size_t i = 0; i < places; ++i)
      history[day * places + i] = loads[i] / (day + 1) + loads[(i * 7 + day) % places];
  std::uint64_t sum = 0;
  for (int round = 0; round < 20; ++round)
    for (const std::uint64_t each : history) sum = sum * 31 + each;
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
