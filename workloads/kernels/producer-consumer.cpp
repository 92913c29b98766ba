// Memory that is allocated by one thread and freed by another.
//
// Half of the threads produce messages, the other half consume them; each pair shares a bounded
// queue. Shows what an allocator does with remote frees: blocks that go back through a lock, blocks
// that pile up at the consumer while the producer asks for fresh memory (blowup), or a cheap hand
// back to the owner.
#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "producer-consumer",
    "Half of the threads allocate messages and the other half free them.\n"
    "Shows the cost of frees by another thread than the one that allocated,\n"
    "and memory that piles up on the freeing side.",
    2};

constexpr std::size_t kBatch = 256;    // messages per hand-over, so that the lock is not the cost
constexpr std::size_t kCapacity = 16;  // batches in a queue
constexpr std::size_t kBatchesAtScaleOne = 25'000;

struct Message {
  Message* next;
  std::size_t size;  // of the whole block, header included
};

class Queue {
 public:
  void push(Message* chain) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ < kCapacity; });
    chains_[(first_ + count_++) % kCapacity] = chain;
    changed_.notify_one();
  }

  Message* pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ > 0; });
    Message* chain = chains_[first_];
    first_ = (first_ + 1) % kCapacity;
    --count_;
    changed_.notify_one();
    return chain;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Message*, kCapacity> chains_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

void produce(Queue& queue, std::size_t batches, std::uint64_t seed, std::uint64_t pair) {
  kernel::Random random(seed, pair);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    Message* chain = nullptr;
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::size_t size = sizeof(Message) + random.between(8, 256);
      auto* message = static_cast<Message*>(kernel::checked(std::malloc(size)));
      *message = {chain, size};
      kernel::fill(message + 1, size - sizeof(Message), random.next());
      chain = message;
    }
    queue.push(chain);
  }
  queue.push(nullptr);
}

std::uint64_t consume(Queue& queue) {
  std::uint64_t sum = 0;
  while (Message* chain = queue.pop()) {
    while (chain != nullptr) {
      sum += kernel::digest(chain + 1, chain->size - sizeof(Message));
      std::free(std::exchange(chain, chain->next));
    }
  }
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  const std::size_t pairs = (options.threads + 1) / 2;
  const std::size_t batches = (options.steps(kBatchesAtScaleOne) + pairs - 1) / pairs;
  std::vector<Queue> queues(pairs);
  std::vector<std::uint64_t> sums(pairs);
  std::vector<std::thread> threads;
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    threads.emplace_back([&, pair] { produce(queues[pair], batches, options.seed, pair); });
    threads.emplace_back([&, pair] { sums[pair] = consume(queues[pair]); });
  }
  for (std::thread& thread : threads) thread.join();
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return kernel::finish(sum);
}
