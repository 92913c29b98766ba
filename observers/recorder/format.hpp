// The files that a recorded process leaves, which tare-merge turns into tables of a raw recording
// and removes. All numbers are of the machine's byte order.
//
//   PID.SERIAL.events   a header of kHeaderBytes, then blocks of events
//   PID.SERIAL.stacks   an array of nodes, the first is number 1
//   PID.SERIAL.modules  a row of text for each object that was found in the address space: how many
//                       nodes there were, its start, end and bias, the bytes of its path, the path
//   PID.SERIAL.python   a row of text for each call that Python code makes: the call, its line, the
//                       bytes of the function's name, the name, the same of the file; then zeros

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::recorder {

inline constexpr std::uint64_t kMagic = 0x32434552'45524154;  // "TAREREC2"
inline constexpr std::uint64_t kBlockMagic = 0x314B4C42'45524154;
inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kHeaderBytes = 4 * kPage;
inline constexpr std::size_t kPathBytes = 4096;

enum Ending : std::uint32_t { kRunning, kExit, kLeft };  // kLeft: the process went on

// Why events are missing; the first reason stays.
enum Loss : std::uint32_t { kNothingLost, kNoRoom, kNoAddresses };

struct Header {
  std::uint64_t magic;
  std::uint32_t pid;
  std::uint32_t parent;
  std::uint32_t forked;  // 1: begun by a fork, not by an exec
  std::uint32_t ending;
  std::uint32_t loss;
  std::uint32_t has_stacks;
  std::uint64_t sample_bytes;  // 0: all is recorded
  std::uint64_t start_ticks;
  std::uint64_t start_nanoseconds;
  std::uint64_t end_ticks;
  std::uint64_t end_nanoseconds;
  std::uint64_t missed;      // events from a signal's handler that interrupted the recorder
  std::uint64_t early;       // allocations before the process could know where to record
  std::uint64_t stacks_cut;  // stacks whose outer part is not known
  char program[kPathBytes];
  char inner_malloc[kPathBytes];
  char inner_free[kPathBytes];
};
static_assert(sizeof(Header) <= kHeaderBytes);

// A block is a whole number of pages. Events follow the header up to a tag of 0; each block can be
// read without the others.
struct Block {
  std::uint64_t magic;
  std::uint32_t bytes;
  std::uint32_t thread;  // from 1; 0: threads at their very end; with a level above kLevelShift
  std::uint64_t ticks;   // now, and what the first event counts from
  std::uint64_t nanoseconds;
};

// What a signal's handler does that interrupted the recorder has blocks of its own, with a level:
// 1, or more where another handler interrupted that one.
inline constexpr unsigned kLevelShift = 30;
inline constexpr std::uint32_t kMostLevels = 3;

// An event is a tag and numbers: each in groups of seven bits, the lowest first, all but the last
// group with the top bit set. Signed ones have their sign in the lowest bit.
//
//   tag        kind | flags | time << kTimeShift
//   time       only if the tag has kTimeFollows there: ticks >> kTickShift since the event before
//   address    signed: (this - that of the last birth, or of the last death) >> kAddressShift
//   size       of a birth
//   slack      of a birth without kUsualSize: the usable size less the size
//   alignment  of kAligned and kAlignedNew
//   stack      unless kSameStack: signed, the node less that of the last birth, or death
//
// A kSkipped event has, after the time, only a number: the bytes of births that were not sampled.
// With kSameStack it is of a region: after the time comes a number of RegionEvent, and numbers.
enum Kind : std::uint8_t {
  kDeath = 1,
  kMalloc,
  kCalloc,
  kRealloc,
  kAligned,
  kNew,
  kSkipped,
  kAlignedNew = 15,  // always with the slack
};
inline constexpr std::uint8_t kKindMask = 7;
inline constexpr std::uint8_t kUsualSize = 8;  // of a birth: UsualSize of its size is usable
inline constexpr std::uint8_t kMoved = 8;      // of a death: by a realloc, whose birth follows
inline constexpr std::uint8_t kSameStack = 16;
inline constexpr unsigned kTimeShift = 5;
inline constexpr std::uint8_t kTimeFollows = 7;
inline constexpr unsigned kTickShift = 4;
inline constexpr unsigned kAddressShift = 3;
inline constexpr std::uint8_t kOfRegion = kSkipped | kSameStack;
inline constexpr std::size_t kMostEventBytes = 96;

// Addresses are signed, in units of kAddressShift from that of the last birth; stacks are signed,
// from that of the last birth.
enum RegionEvent : std::uint8_t {
  kCreated,      // region, parent, stack
  kAllocated,    // address, region, size, slack, stack
  kFreed,        // address, stack
  kCleared,      // region, stack
  kDestroyed,    // region, stack
  kOwnOfRegion,  // address: what malloc gave is of the library itself
};

struct Node {
  std::uint64_t call;  // return address, or a number with kPythonCall
  std::uint32_t caller;
  std::uint32_t unused;
};

inline constexpr std::uint64_t kPythonCall = std::uint64_t{1} << 63;

// What glibc's malloc gives for so many bytes, but for the largest.
inline constexpr std::size_t UsualSize(std::size_t bytes) {
  return bytes <= 24 ? 24 : ((bytes + 8 + 15) & ~std::size_t{15}) - 8;
}

inline std::uint8_t* PutNumber(std::uint8_t* at, std::uint64_t number) {
  for (; number >= 128; number >>= 7) *at++ = static_cast<std::uint8_t>(number | 128);
  *at++ = static_cast<std::uint8_t>(number);
  return at;
}

inline constexpr std::uint64_t Folded(std::int64_t number) {
  return (static_cast<std::uint64_t>(number) << 1) ^ static_cast<std::uint64_t>(number >> 63);
}

inline constexpr std::int64_t Unfolded(std::uint64_t number) {
  return static_cast<std::int64_t>(number >> 1) ^ -static_cast<std::int64_t>(number & 1);
}

}  // namespace tare::recorder
