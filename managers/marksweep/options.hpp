// What can be set, as environment variables say it.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "environment.hpp"

namespace tare {

enum class FreeMode { kHonour, kIgnore, kQuarantine };

struct Options {
  std::size_t every = 0;    // bytes allocated between collections; 0: as many as are live
  std::size_t reclaim = 1;  // one collection in so many reclaims; 0: none
  FreeMode free = FreeMode::kIgnore;
  std::size_t heap = 0;  // most bytes of active pages; 0: any
  std::size_t markers = 1;
  std::size_t scan = 8;               // bytes from one word that can be a pointer to the next
  bool concurrent = false;            // marks beside the program
  bool verify = false;                // condemn what would be reclaimed, and see whether it is used
  std::size_t pause_nanoseconds = 0;  // of pauses midway between collections; 0: there are none
};

inline constexpr std::size_t kMostMarkers = 16;
inline constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max() / 16;
inline constexpr std::size_t kLongestPause = 10'000'000'000;
inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

inline std::size_t ReadEvery() {
  constexpr const char* kVariable = "TARE_MARKSWEEP_EVERY";
  const char* const text = getenv(kVariable);
  if (text != nullptr && strcmp(text, "18446744073709551615") == 0) return kNever;
  return ReadBytes(kVariable, 0, 0, kAnySize);
}

[[noreturn]] inline void Refuse(const char* why) {
  Message message;
  message << "tare-marksweep: " << why;
  Abort(message);
}

inline FreeMode ReadFreeMode() {
  constexpr const char* kVariable = "TARE_MARKSWEEP_FREE";
  const char* const text = getenv(kVariable);
  if (text == nullptr || strcmp(text, "ignore") == 0) return FreeMode::kIgnore;
  if (strcmp(text, "honour") == 0) return FreeMode::kHonour;
  if (strcmp(text, "quarantine") == 0) return FreeMode::kQuarantine;
  WrongOption(kVariable, text);
}

inline Options ReadOptions() {
  Options options;
  options.every = ReadEvery();
  options.reclaim = ReadBytes("TARE_MARKSWEEP_RECLAIM", options.reclaim, 0, kAnySize);
  options.free = ReadFreeMode();
  options.heap = ReadBytes("TARE_MARKSWEEP_HEAP", options.heap, 0, kAnySize);
  options.markers = ReadBytes("TARE_MARKSWEEP_MARKERS", options.markers, 1, kMostMarkers);
  options.scan = ReadChoice("TARE_MARKSWEEP_SCAN", false, "4", "8") ? 4 : 8;
  options.concurrent = ReadChoice("TARE_MARKSWEEP_MARK", false, "concurrent", "stopped");
  options.verify = ReadChoice("TARE_MARKSWEEP_VERIFY", options.verify, "yes", "no");
  options.pause_nanoseconds = ReadBytes("TARE_MARKSWEEP_PAUSE", 0, 0, kLongestPause);
  if (options.concurrent && options.free != FreeMode::kIgnore)
    Refuse("mark=concurrent needs free=ignore");
  return options;
}

}  // namespace tare
