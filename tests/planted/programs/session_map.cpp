// Counts what sessions transfer. A session that is closed stays in the map.
#include <cstdint>
#include <cstdio>
#include <map>

namespace {

struct Session {
  std::uint64_t sent = 0, received = 0, opened = 0, closed = 0;
  std::uint32_t retries[8] = {};
};

class Sessions {
 public:
  void open(std::uint32_t id, std::uint64_t now) {
    sessions_[id].opened = now;  // planted: leak
  }
  void transfer(std::uint32_t id, std::uint64_t bytes) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return;
    found->second.sent += bytes;
    found->second.received += bytes / 3;
    ++found->second.retries[bytes % 8];
  }
  std::uint64_t close(std::uint32_t id, std::uint64_t now) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return 0;
    found->second.closed = now;
    const std::uint64_t answer = found->second.sent + now - found->second.opened;
#ifdef FIXED
    sessions_.erase(found);
#endif
    return answer;
  }

 private:
  std::map<std::uint32_t, Session> sessions_;
};

}  // namespace

int main() {
  constexpr std::uint32_t arrivals = 60000, open_at_once = 500;
  static Sessions& sessions = *new Sessions;
  std::uint32_t seed = 17;
  std::uint64_t sum = 0;
  for (std::uint32_t id = 0; id < arrivals; ++id) {
    sessions.open(id, id);
    for (int i = 0; i < 4; ++i) {
      seed = seed * 1664525 + 1013904223;
      const std::uint32_t age = (seed >> 8) % open_at_once;
      if (age <= id) sessions.transfer(id - age, seed >> 20);
    }
    if (id >= open_at_once) sum += sessions.close(id - open_at_once, id);
  }
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
