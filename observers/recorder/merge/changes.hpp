// When recording went on and off.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <vector>

#include "../switch.hpp"
#include "input.hpp"

namespace tare::recorder {

struct PowerChange {
  std::uint64_t nanoseconds;  // of the kernel's steady clock
  std::uint64_t ticks;        // 0: not known
  bool is_off;                // from then on
};

// What the switch of the recording was turned to, from `start` on: the first row is how it was
// then. Empty where the recording has no switch.
inline std::vector<PowerChange> ReadChanges(const std::filesystem::path& folder,
                                            std::uint64_t start) {
  const Input input((folder / "switch").string());
  if (input.size() < sizeof(Switch)) return {};
  constexpr std::size_t kChanges = offsetof(Switch, changes);
  std::vector<PowerChange> found;
  for (std::size_t at = kChanges; at < sizeof(Switch); at += sizeof(Change)) {
    std::array<std::uint64_t, 2> change;
    memcpy(&change, input.data() + at, sizeof change);
    if (change[0] == 0) break;
    found.push_back({change[0] >> 1, change[1], (change[0] & 1) != 0});
  }
  std::uint32_t power;
  memcpy(&power, input.data(), sizeof power);
  bool is_off = found.empty() ? power != 0 : !found.front().is_off;
  const auto later = std::find_if(found.begin(), found.end(), [&](const PowerChange& change) {
    return change.nanoseconds > start;
  });
  if (later != found.begin()) is_off = std::prev(later)->is_off;
  found.erase(found.begin(), later);
  found.insert(found.begin(), {start, 0, is_off});
  return found;
}

}  // namespace tare::recorder
