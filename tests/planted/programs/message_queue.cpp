// A thread makes messages, another takes them in and frees them.
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Message {
  std::uint64_t number, payload[10];
  std::uint64_t digest(std::uint64_t sum) const {
    for (int round = 0; round < 12; ++round)
      for (const std::uint64_t word : payload) sum = (sum ^ word) * 0x9e3779b97f4a7c15;
    return sum + number;
  }
};
using Batch = std::vector<std::unique_ptr<Message>>;

// One batch at a time, so that both threads take turns.
template <typename Item>
class Slot {
 public:
  void put(Item item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !full_; });
    item_ = std::move(item);
    full_ = true;
    changed_.notify_one();
  }
  Item take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return full_; });
    full_ = false;
    changed_.notify_one();
    return std::move(item_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Item item_;
  bool full_ = false;
};

constexpr std::size_t batches = 600, batch_size = 500;

void produce(Slot<Batch>& out, Slot<Batch>& back) {
  Batch batch(batch_size);
  for (std::uint64_t i = 0; i < batches; ++i) {
    for (auto& message : batch) {
      if (message)
        *message = Message();
      else
        message = std::make_unique<Message>();  // planted: cross-thread
      message->number = i;
      message->payload[i % 10] = i * 31;
    }
    out.put(std::move(batch));
    batch = back.take();
  }
}

std::uint64_t consume(Slot<Batch>& in, Slot<Batch>& back) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < batches; ++i) {
    Batch batch = in.take();
    for (auto& message : batch) {
      sum = message->digest(sum);
#ifndef FIXED
      message.reset();
#endif
    }
    back.put(std::move(batch));
  }
  return sum;
}

}  // namespace

int main() {
  Slot<Batch> there, back;
  std::thread producer([&] { produce(there, back); });
  const std::uint64_t sum = consume(there, back);
  producer.join();
  std::printf("%llu\n", static_cast<unsigned long long>(sum));
}
