// From the events of a process to the births and deaths of its objects.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "../format.hpp"

namespace tare::recorder {

struct Totals {
  std::uint64_t nanoseconds = 0;  // at the end, from the start of the recording
  std::uint64_t allocated_bytes = 0;
  std::uint64_t objects = 0;
  std::uint64_t events = 0;
  std::uint64_t max_live_objects = 0;
  std::uint64_t max_live_bytes = 0;
  std::uint64_t threads = 0;
  std::uint64_t unknown_frees = 0;
  std::uint64_t reused = 0;  // objects whose address came again without a free
  std::uint64_t damaged = 0;
  bool has_switch = false;  // so the free of an object from before need not be an error
};

// Writes the tables births and deaths of the events in `stem`.events.
Totals WriteObjects(const std::filesystem::path& stem, const Header& header);

}  // namespace tare::recorder
