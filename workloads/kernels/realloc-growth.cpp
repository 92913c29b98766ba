// Buffers that grow by realloc.
//
// Many buffers grow side by side, some by a constant step as naive string code does, some by half
// their size as vectors do, up to a few hundred KiB; then they shrink to what was used. Shows
// whether realloc can grow in place or move by remapping pages, or copies every time; and what the
// abandoned blocks leave behind.
#include <algorithm>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "realloc-growth",
    "Many buffers grow side by side by realloc, by constant steps or by half.\n"
    "Shows whether realloc grows in place, remaps pages or copies, and what the\n"
    "abandoned blocks leave behind.",
    0};

constexpr std::size_t kBuffersAtScaleOne = 30'000;
constexpr std::size_t kSideBySide = 32;

struct Buffer {
  char* memory = nullptr;
  std::size_t used = 0;
  std::size_t capacity = 0;
  std::size_t goal = 0;
  std::size_t step = 0;  // 0: grow by half
};

void append(Buffer& buffer, std::uint64_t word, std::size_t count) {
  const std::size_t bytes = count * sizeof word;
  if (buffer.used + bytes > buffer.capacity) {
    const std::size_t step = buffer.step != 0 ? buffer.step : buffer.capacity / 2;
    buffer.capacity = std::max(buffer.used + bytes, buffer.capacity + step);
    buffer.memory =
        static_cast<char*>(kernel::checked(std::realloc(buffer.memory, buffer.capacity)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(buffer.memory + buffer.used, &word, sizeof word);
    buffer.used += sizeof word;
    ++word;
  }
}

Buffer start(kernel::Random& random) {
  Buffer buffer;
  // Most buffers stay small and a few get big: the goal is uniform in its logarithm.
  buffer.goal = std::size_t{1} << random.between(7, 18);
  buffer.goal += random.below(buffer.goal);
  buffer.step = random.below(2) == 0 ? 0 : random.between(4, 64) * 16;
  return buffer;
}

std::uint64_t end(Buffer& buffer) {
  buffer.memory = static_cast<char*>(kernel::checked(std::realloc(buffer.memory, buffer.used)));
  const std::uint64_t sum = kernel::digest(buffer.memory, buffer.used);
  std::free(buffer.memory);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);
  std::uint64_t sum = 0;
  std::size_t to_start = options.steps(kBuffersAtScaleOne);
  std::vector<Buffer> growing;
  while (to_start > 0 || !growing.empty()) {
    while (to_start > 0 && growing.size() < kSideBySide) {
      growing.push_back(start(random));
      --to_start;
    }
    const std::size_t chosen = random.below(growing.size());
    Buffer& buffer = growing[chosen];
    append(buffer, random.next(), random.between(1, 32));
    if (buffer.used >= buffer.goal) {
      sum += end(buffer);
      buffer = growing.back();
      growing.pop_back();
    }
  }
  return kernel::finish(sum);
}
