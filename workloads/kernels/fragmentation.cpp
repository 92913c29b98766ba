// A long run whose sizes change, with a few survivors from every phase.
//
// Each phase fills the heap up to a fixed volume with objects of its own size range, churns them,
// and frees all but one in twenty-five, chosen at random; the survivors live for some more phases.
// The live volume never passes a known bound, so peak memory above that bound is fragmentation:
// holes between survivors that the sizes of the next phase do not fit, or memory bound to a size
// class.
#include <array>
#include <iterator>
#include <vector>

#include "kernel.hpp"

namespace {

constexpr kernel::About kAbout{
    "fragmentation",
    "Phases with different object sizes; a few random survivors of each phase pin\n"
    "the memory of the rest.\n"
    "Shows fragmentation: the peak resident memory over the live volume, which is\n"
    "at most 64 MiB, 16 MiB of survivors and 16 MiB of bookkeeping.",
    0};

constexpr std::size_t kPhasesAtScaleOne = 16;
constexpr std::size_t kVolume = 64U << 20;
constexpr std::size_t kSurvivorOneIn = 25;
constexpr std::size_t kSurvivorPhases = 6;

struct Range {
  std::size_t low;
  std::size_t high;
};
// Deliberately not powers of two, and not in order of size.
constexpr Range kRanges[] = {{40, 88},   {400, 900}, {90, 160},       {3'000, 5'000},
                             {180, 380}, {32, 56},   {9'000, 20'000}, {1'000, 2'500}};

struct Piece {
  Piece* next;
  std::size_t size;  // of the whole piece, this header included
};

Piece* make(std::size_t size, std::uint64_t tag) {
  auto* piece = static_cast<Piece*>(kernel::checked(std::malloc(size)));
  *piece = {nullptr, size};
  kernel::fill(piece + 1, size - sizeof(Piece), tag);
  return piece;
}

std::uint64_t drop(Piece* piece) {
  const std::uint64_t sum = kernel::digest(piece + 1, piece->size - sizeof(Piece));
  std::free(piece);
  return sum;
}

std::uint64_t drop_chain(Piece* chain) {
  std::uint64_t sum = 0;
  while (chain != nullptr) sum += drop(std::exchange(chain, chain->next));
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const kernel::Options options = kernel::parse(argc, argv, kAbout);
  kernel::Random random(options.seed, 0);
  std::uint64_t sum = 0;
  std::array<Piece*, kSurvivorPhases> survivors{};
  // One table for all phases, so that bookkeeping is the same constant under every allocator.
  std::vector<Piece*> pieces;
  pieces.reserve(kVolume / 32);
  const std::size_t phases = options.steps(kPhasesAtScaleOne);
  for (std::size_t phase = 0; phase < phases; ++phase) {
    const Range range = kRanges[phase % std::size(kRanges)];
    for (std::size_t volume = 0; volume < kVolume;) {
      pieces.push_back(make(random.between(range.low, range.high), random.next()));
      volume += pieces.back()->size;
    }
    for (std::size_t i = 0; i < pieces.size() / 2; ++i) {
      Piece*& victim = pieces[random.below(pieces.size())];
      const std::size_t size = victim->size;
      sum += drop(victim);
      victim = make(size, random.next());
    }
    Piece*& kept = survivors[phase % kSurvivorPhases];
    sum += drop_chain(std::exchange(kept, nullptr));
    for (Piece* piece : pieces) {
      if (random.below(kSurvivorOneIn) == 0) {
        piece->next = std::exchange(kept, piece);
      } else {
        sum += drop(piece);
      }
    }
    pieces.clear();
  }
  for (Piece* kept : survivors) sum += drop_chain(kept);
  return kernel::finish(sum);
}
