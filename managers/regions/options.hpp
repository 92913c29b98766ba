// What can be set, as environment variables say it.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "environment.hpp"

namespace tare::regions {

// What serves the objects of regions.
enum class Route {
  kOriginal,   // the program's own region library
  kEmulation,  // malloc: one object of it for each
  kRegion,     // a region that bumps a pointer; single frees do nothing
  kReap,       // a reap; single frees are done
};

struct Options {
  Route route = Route::kOriginal;
  bool statistics = false;  // count objects and bytes too
};

inline Route ReadRoute(const char* variable) {
  const char* const text = getenv(variable);
  if (text == nullptr || strcmp(text, "original") == 0) return Route::kOriginal;
  if (strcmp(text, "emulation") == 0) return Route::kEmulation;
  if (strcmp(text, "region") == 0) return Route::kRegion;
  if (strcmp(text, "reap") == 0) return Route::kReap;
  WrongOption(variable, text);
}

inline Options ReadOptions() {
  return {ReadRoute("TARE_REGIONS_AS"), ReadChoice("TARE_REGIONS_STATISTICS", false, "yes", "no")};
}

}  // namespace tare::regions
