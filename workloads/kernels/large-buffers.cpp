// Large buffers that are allocated, filled and freed over and over.
//
// Sizes from 64 KiB to 4 MiB, as in programs that read files or images whole. Shows what it costs
// to give memory back to the kernel and ask for it again: page faults and zeroing when an allocator
// returns at once, resident memory when it keeps.
#include <array>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "large-buffers",
    "Buffers of 64 KiB to 4 MiB, allocated, filled and freed over and over.\n"
    "Shows the trade between giving memory back to the kernel (page faults, system\n"
    "time) and keeping it (resident memory).",
    0};

constexpr std::size_t kBuffersAtScaleOne = 12'000;
constexpr std::size_t kHeld = 8;

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);
  std::uint64_t sum = 0;
  std::array<kernel::Block, kHeld> held;
  const std::size_t buffers = options.steps(kBuffersAtScaleOne);
  for (std::size_t i = 0; i < buffers; ++i) {
    kernel::Block& slot = held[random.below(held.size())];
    sum += kernel::drop(slot);
    // Uniform in the logarithm, so that small ones are as frequent as big ones.
    std::size_t size = std::size_t{64 * 1024} << random.below(6);
    size += random.below(size);
    slot = kernel::make_block(size, random.next());
  }
  for (kernel::Block& slot : held) sum += kernel::drop(slot);
  return kernel::finish(sum);
}
