// What a region library, or a shim in front of one, tells the recorder, if that is loaded: which
// regions there are, and which objects are in them. Recorder() has nullptr for each function where
// nothing is recorded. observers/recorder/regions.cpp defines them.

#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

namespace tare::regions {

// The number of a region: from 1, unique in its process and the forks of it. 0 is no region.
using Region = std::uint32_t;

// `frame` is __builtin_frame_address(0) of the function that the program called: its caller is the
// call site of what happens. With nullptr it is the caller of the function below.
struct Recorder {
  // A region inside of `parent`, which may be 0. 0 where nothing is recorded.
  Region (*create)(Region parent, const void* frame);
  // An object of the region, after it was given. A new object at the address of one that is still
  // alive ends that one.
  void (*allocate)(Region region, const void* object, std::size_t bytes, std::size_t usable,
                   const void* frame);
  // One object, by itself, before it is given back.
  void (*free)(const void* object, const void* frame);
  // All objects of the region, and the regions inside with theirs. It stays, or goes. Before the
  // memory is given back.
  void (*clear)(Region region, const void* frame);
  void (*destroy)(Region region, const void* frame);
  // Between these two, what this thread gets from malloc is the library's own: its chunks, or the
  // memory of what `allocate` tells. It is no object, and its free is none. They nest.
  void (*begin_own)();
  void (*end_own)();
};

// To be asked once; the functions stay.
inline const Recorder& FindRecorder() {
  static const Recorder* const found =
      static_cast<const Recorder*>(dlsym(RTLD_DEFAULT, "tare_recorder_regions"));
  static constexpr Recorder kNone{};
  return found != nullptr ? *found : kNone;
}

}  // namespace tare::regions
