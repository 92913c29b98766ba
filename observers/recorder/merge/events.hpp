// Reads the events of a process: those of each thread in their order, and of all threads by time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "../format.hpp"
#include "input.hpp"

namespace tare::recorder {

struct Event {
  std::uint8_t kind;         // of Kind, or kOfRegion
  RegionEvent region_event;  // of kOfRegion
  bool moved;                // a death by a realloc
  std::uint32_t thread;
  std::uint64_t time;  // ticks >> kTickShift
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t usable;
  std::uint64_t alignment;
  std::uint32_t stack;
  std::uint64_t region;
  std::uint64_t parent;  // of a region
};

// The events of one thread, or of the handlers of one level that interrupted it. `blocks` are
// offsets in the file, in their order.
class Stream {
 public:
  Stream(const Input& input, std::uint32_t thread, std::vector<std::size_t> blocks)
      : input_(&input), thread_(thread), blocks_(std::move(blocks)) {}

  // Whether there is one more, which is then in `event`. A damaged block counts in `damaged`, and
  // the next one goes on.
  bool Next(Event& event, std::uint64_t& damaged) {
    for (;;) {
      if (at_ != nullptr) {
        if (at_ < end_ && *at_ != 0) {
          if (Decode(event)) return true;
          ++damaged;
        }
        input_->Drop(blocks_[next_ - 1], BlockAt(next_ - 1)->bytes);
        at_ = nullptr;
      }
      if (next_ == blocks_.size()) return false;
      Open(next_++);
    }
  }

 private:
  const Block* BlockAt(std::size_t number) const {
    return reinterpret_cast<const Block*>(input_->data() + blocks_[number]);
  }

  void Open(std::size_t number) {
    const Block* const block = BlockAt(number);
    at_ = reinterpret_cast<const std::uint8_t*>(block + 1);
    end_ = reinterpret_cast<const std::uint8_t*>(block) + block->bytes;
    time_ = block->ticks >> kTickShift;
    birth_ = death_ = 0;
    birth_stack_ = death_stack_ = 0;
  }

  bool Number(std::uint64_t& number) {
    number = 0;
    for (unsigned shift = 0; at_ < end_ && shift < 64; shift += 7) {
      const std::uint8_t group = *at_++;
      number |= static_cast<std::uint64_t>(group & 127) << shift;
      if (group < 128) return true;
    }
    return false;
  }

  bool Address(std::uint64_t& last) {
    std::uint64_t folded;
    if (!Number(folded)) return false;
    last += static_cast<std::uint64_t>(Unfolded(folded)) << kAddressShift;
    return true;
  }

  bool Stack(std::uint8_t tag, std::uint32_t& last) {
    if ((tag & kSameStack) != 0) return true;
    std::uint64_t folded;
    if (!Number(folded)) return false;
    last = static_cast<std::uint32_t>(last + static_cast<std::uint64_t>(Unfolded(folded)));
    return true;
  }

  bool Decode(Event& event) {
    const std::uint8_t tag = *at_++;
    const bool aligned_new = (tag & kAlignedNew) == kAlignedNew;
    event = {.kind = aligned_new ? std::uint8_t{kAlignedNew}
                                 : static_cast<std::uint8_t>(tag & kKindMask),
             .region_event = kCreated,
             .moved = false,
             .thread = thread_ & ((std::uint32_t{1} << kLevelShift) - 1),
             .time = 0,
             .address = 0,
             .bytes = 0,
             .usable = 0,
             .alignment = 0,
             .stack = 0,
             .region = 0,
             .parent = 0};
    std::uint64_t passed = tag >> kTimeShift;
    if (passed == kTimeFollows && !Number(passed)) return false;
    time_ += passed;
    event.time = time_;
    if ((tag & (kKindMask | kUsualSize | kSameStack)) == kOfRegion) {
      event.kind = kOfRegion;
      return DecodeOfRegion(event);
    }
    if (event.kind == kSkipped) return Number(event.bytes);
    if (event.kind == kDeath) {
      if (!Address(death_) || !Stack(tag, death_stack_)) return false;
      event.moved = (tag & kMoved) != 0;
      event.address = death_;
      event.stack = death_stack_;
      return true;
    }
    if (!Address(birth_) || birth_ == 0 || !Number(event.bytes)) return false;
    event.address = birth_;
    std::uint64_t slack = 0;
    if (aligned_new || (tag & kUsualSize) == 0) {
      if (!Number(slack)) return false;
      event.usable = event.bytes + slack;
    } else {
      event.usable = UsualSize(event.bytes);
    }
    if ((aligned_new || event.kind == kAligned) && !Number(event.alignment)) return false;
    if (!Stack(tag, birth_stack_)) return false;
    event.stack = birth_stack_;
    return event.kind != 0;
  }

  bool RegionAddress(Event& event) {
    std::uint64_t folded;
    if (!Number(folded)) return false;
    event.address = birth_ + static_cast<std::uint64_t>(Unfolded(folded));
    return true;
  }

  bool DecodeOfRegion(Event& event) {
    std::uint64_t what, slack = 0;
    if (!Number(what) || what > kOwnOfRegion) return false;
    event.region_event = static_cast<RegionEvent>(what);
    switch (event.region_event) {
      case kOwnOfRegion:
        return RegionAddress(event);
      case kCreated:
        if (!Number(event.region) || !Number(event.parent)) return false;
        break;
      case kAllocated:
        if (!RegionAddress(event) || event.address == 0 || !Number(event.region) ||
            !Number(event.bytes) || !Number(slack))
          return false;
        event.usable = event.bytes + slack;
        break;
      case kFreed:
        if (!RegionAddress(event)) return false;
        break;
      case kCleared:
      case kDestroyed:
        if (!Number(event.region)) return false;
        break;
    }
    if (!Stack(0, birth_stack_)) return false;
    event.stack = birth_stack_;
    return true;
  }

  const Input* input_;
  std::uint32_t thread_;
  std::vector<std::size_t> blocks_;
  std::size_t next_ = 0;
  const std::uint8_t* at_ = nullptr;
  const std::uint8_t* end_ = nullptr;
  std::uint64_t time_ = 0;
  std::uint64_t birth_ = 0, death_ = 0;
  std::uint32_t birth_stack_ = 0, death_stack_ = 0;
};

// The events of all threads, by time.
class Events {
 public:
  explicit Events(const Input& input) {
    std::map<std::uint32_t, std::vector<std::size_t>> blocks;
    for (std::size_t at = kHeaderBytes; at + kPage <= input.size();) {
      Block block;
      memcpy(&block, input.data() + at, sizeof block);
      // A process can have been killed when it had the room for a block, and not yet its header.
      const bool is_block = block.magic == kBlockMagic && block.bytes >= kPage &&
                            block.bytes % kPage == 0 && block.bytes <= input.size() - at;
      if (is_block) {
        blocks[block.thread].push_back(at);
        last_ticks = std::max(last_ticks, block.ticks);
        last_nanoseconds = std::max(last_nanoseconds, block.nanoseconds);
      }
      at += is_block ? block.bytes : kPage;
    }
    constexpr std::uint32_t kFirstHandler = std::uint32_t{1} << kLevelShift;
    for (const auto& [thread, offsets] : blocks) threads += thread != 0 && thread < kFirstHandler;
    heap_.reserve(blocks.size());
    for (auto& [thread, offsets] : blocks)
      heap_.push_back({{}, Stream(input, thread, std::move(offsets))});
    std::erase_if(heap_, [this](Head& head) { return !head.stream.Next(head.event, damaged); });
    std::make_heap(heap_.begin(), heap_.end(), IsLater);
  }

  bool Next(Event& event) {
    if (heap_.empty()) return false;
    if (heap_.size() == 1) {
      event = heap_[0].event;
      if (!heap_[0].stream.Next(heap_[0].event, damaged)) heap_.clear();
      return true;
    }
    std::pop_heap(heap_.begin(), heap_.end(), IsLater);
    Head& head = heap_.back();
    event = head.event;
    if (head.stream.Next(head.event, damaged))
      std::push_heap(heap_.begin(), heap_.end(), IsLater);
    else
      heap_.pop_back();
    return true;
  }

  std::uint64_t threads = 0;
  std::uint64_t damaged = 0;
  std::uint64_t last_ticks = 0, last_nanoseconds = 0;  // two clocks at the same moment

 private:
  struct Head {
    Event event;
    Stream stream;
  };
  // Of two events at once a death comes first: it makes room for a birth.
  static bool IsLater(const Head& a, const Head& b) {
    if (a.event.time != b.event.time) return a.event.time > b.event.time;
    return (a.event.kind != kDeath) && (b.event.kind == kDeath);
  }
  std::vector<Head> heap_;
};

}  // namespace tare::recorder
