// The objects that are alive at a moment of the recording, by address.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tare::recorder {

struct LiveObject {
  std::uint64_t address;  // 0: none
  std::uint64_t id;
  std::uint64_t bytes;
  std::uint64_t birth;   // time
  std::uint64_t region;  // as the recorder numbers them; 0: none
};

// Open addressing; what follows a removed entry moves up.
class LiveObjects {
 public:
  LiveObjects() : slots_(std::size_t{1} << 16) {}

  LiveObject* Find(std::uint64_t address) {
    for (std::size_t at = Home(address); slots_[at].address != 0; at = After(at))
      if (slots_[at].address == address) return &slots_[at];
    return nullptr;
  }

  void Clear() { *this = {}; }

  // There must be none of this address.
  void Insert(const LiveObject& object) {
    if (++count_ * 2 > slots_.size()) Grow();
    Place(object);
  }

  void Remove(LiveObject* object) {
    --count_;
    auto hole = static_cast<std::size_t>(object - slots_.data());
    for (std::size_t at = After(hole); slots_[at].address != 0; at = After(at)) {
      const std::size_t home = Home(slots_[at].address);
      if (((at - home) & Mask()) < ((at - hole) & Mask())) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].address = 0;
  }

 private:
  std::size_t Mask() const { return slots_.size() - 1; }
  std::size_t After(std::size_t at) const { return (at + 1) & Mask(); }
  std::size_t Home(std::uint64_t address) const {
    return static_cast<std::size_t>((address * 0x9E3779B97F4A7C15u) >> 20) & Mask();
  }
  void Place(const LiveObject& object) {
    std::size_t at = Home(object.address);
    while (slots_[at].address != 0) at = After(at);
    slots_[at] = object;
  }
  void Grow() {
    std::vector<LiveObject> before(2 * slots_.size());
    before.swap(slots_);
    for (const LiveObject& object : before)
      if (object.address != 0) Place(object);
  }

  std::vector<LiveObject> slots_;
  std::size_t count_ = 0;
};

}  // namespace tare::recorder
