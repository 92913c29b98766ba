// Which bytes of the address space are objects, and what is known of each: bits beside the memory
// and never in it, two for each granule of 16 bytes where an object may start or end, two more
// for the object that starts there. No allocator puts two objects into one granule, because what
// is asked of it is a multiple of one.
//
// A leaf describes 64 MiB. A block of it describes 512 bytes: one word says where objects start
// (low half) and end (high half), the other which of them are marked (low) or freed (high). An
// object is entered by setting one bit in each half of one word, mostly in one instruction. Where
// an object goes on into another segment of 16 KiB, that segment says where it started; so any
// address is resolved within 16 KiB, and any object is measured in steps of 16 KiB.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ranges.hpp"
#include "tare/platform/memory.hpp"

namespace tare {

inline constexpr std::size_t kGranule = 16;
inline constexpr unsigned kBlockShift = 9;
inline constexpr unsigned kSegmentShift = 14;
inline constexpr unsigned kLeafShift = 26;
inline constexpr std::size_t kPageBytes = platform::kLeastPageBytes;  // by which heaps are counted
using platform::kAddressBits;
inline constexpr std::size_t kBlockBytes = 1 << kBlockShift;
inline constexpr std::size_t kLeafBytes = 1 << kLeafShift;
inline constexpr std::size_t kBlocksInLeaf = kLeafBytes >> kBlockShift;
inline constexpr std::size_t kSegmentsInLeaf = kLeafBytes >> kSegmentShift;
inline constexpr std::size_t kBlocksInSegment = 1 << (kSegmentShift - kBlockShift);
inline constexpr std::size_t kPagesInLeaf = kLeafBytes / kPageBytes;
inline constexpr std::size_t kBlocksInPage = kPageBytes >> kBlockShift;
inline constexpr std::size_t kLeaves = std::size_t{1} << (kAddressBits - kLeafShift);

using Word = std::uint64_t;
using Half = std::uint32_t;

struct Block {
  Word bounds;  // starts, ends
  Word state;   // marked, freed
};

inline constexpr std::size_t kBlocksInGroup = kPageBytes / sizeof(Block);
inline constexpr std::size_t kGroupsInLeaf = kBlocksInLeaf / kBlocksInGroup;

struct Leaf {
  Block blocks[kBlocksInLeaf + 1];  // the last one stays empty, for who looks at the next, too
  Address covers[kSegmentsInLeaf];  // where the object began that goes on into each segment
  Leaf* next;
  Address base;
  Half* condemned;                   // objects that start in each block; only with verify=yes
  std::uint8_t used[kGroupsInLeaf];  // groups of blocks, a page each, that have held an object
  std::uint8_t busy[kPagesInLeaf];   // blocks of each page where an object starts or ends
};

inline constexpr Word kEnd = Word{1} << 32;
inline Word StartBit(unsigned granule) { return Word{1} << granule; }
inline Word EndBit(unsigned granule) { return kEnd << granule; }
inline Half Starts(Word bounds) { return static_cast<Half>(bounds); }
inline Half Ends(Word bounds) { return static_cast<Half>(bounds >> 32); }
inline Half Marked(Word state) { return static_cast<Half>(state); }
inline Half Freed(Word state) { return static_cast<Half>(state >> 32); }

// The low bits of all granules from `first` to `last`.
inline Word BitsFromTo(unsigned first, unsigned last) {
  return (Word{2} << last) - StartBit(first);
}

inline unsigned LastIn(Half bits) { return 31 - static_cast<unsigned>(std::countl_zero(bits)); }
inline unsigned FirstIn(Half bits) { return static_cast<unsigned>(std::countr_zero(bits)); }

inline unsigned GranuleOf(Address address) { return (address / kGranule) % 32; }
inline std::size_t BlockIndex(Address address) { return (address >> kBlockShift) % kBlocksInLeaf; }
inline std::size_t SegmentIndex(Address address) {
  return (address >> kSegmentShift) % kSegmentsInLeaf;
}
inline Address BlockBase(Address address) { return address & ~(kBlockBytes - 1); }

// What is read behind it was written before what is seen.
inline Word Load(const Word& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }

// The granules of those objects that start at `some` and end in the block. The granules in which an
// object goes on are ones, so that adding its start carries up to its end.
inline Half GranulesOf(Word bounds, Half some) {
  Word starts = Starts(bounds), ends = Ends(bounds);
  if (starts == 0 || ends == 0) return 0;
  // Without the end of an object from a block before, and the start of one that goes on.
  ends &= ~(StartBit(FirstIn(static_cast<Half>(starts))) - 1);
  if (const unsigned last = LastIn(static_cast<Half>(starts)); ends >> last == 0)
    starts ^= StartBit(last);
  const Word inside = ((ends << 1) - starts) & ~ends;
  return static_cast<Half>((inside + (some & starts)) ^ inside);
}

// The granule at which the object ends that starts at `start`, or 32: in another block.
inline unsigned EndInBlock(Word bounds, unsigned start) {
  const Half ends = Ends(bounds) >> start;
  return ends == 0 ? 32 : start + FirstIn(ends);
}
// The same in a block and the next one, or 64.
inline unsigned EndInTwo(Word bounds, Word next, unsigned start) {
  const Word ends = (Ends(bounds) | (next & ~Word{~Half{0}})) >> start;
  return ends == 0 ? 64 : start + static_cast<unsigned>(std::countr_zero(ends));
}

}  // namespace tare
