// The functions of regions.hpp: what region libraries and shims tell of their objects.

#include "regions.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "event.hpp"
#include "tare/platform/frames.hpp"

namespace tare::recorder {
namespace {

using regions::Region;

// Goes on in the child of a fork, which knows the regions of its parent.
constinit std::atomic<Region> last_region = 0;

// Where a region has so many bytes left that no sample is due, while malloc's are its own.
constinit thread_local TARE_INITIAL_EXEC std::uint64_t saved_bytes_left = 0;

Caller CallerOfFrame(Thread& t, const Caller& here, const void* frame) {
  const OwnBusiness own(t);
  return process->native_stacks == nullptr
             ? Caller{}
             : t.walker.CallerOf(*process->native_stacks, here,
                                 reinterpret_cast<std::uintptr_t>(frame));
}

// An event of numbers and a stack.
template <typename... Numbers>
void Record(RegionEvent what, const void* object, const void* frame, Numbers... values) {
  Thread* const t = Enter();
  if (t == nullptr) return;
  const Caller here = platform::CallerHere();
  const bool is_here = frame == __builtin_frame_address(0);
  const std::uint32_t stack = StackOf(*t, platform::CallerOf(frame, [&] {
    return is_here ? here : CallerOfFrame(*t, here, frame);
  }));
  Event event(*t, kOfRegion, Ticks());
  event.Put(what);
  if (object != nullptr) event.PutRegionAddress(object);
  (event.Put(values), ...);
  event.PutRegionStack(stack);
  event.Finish();
  Leave(*t);
}

Region Create(Region parent, const void* frame) {
  if (process == nullptr) return 0;
  const Region region = 1 + last_region.fetch_add(1, std::memory_order_relaxed);
  if (PowerNow() == Power::kOn) Record(kCreated, nullptr, frame, region, parent);
  return region;
}

void Allocate(Region region, const void* object, std::size_t bytes, std::size_t usable,
              const void* frame) {
  if (region == 0 || object == nullptr || PowerNow() != Power::kOn || Passes(bytes)) return;
  if (!IsSampledBirth(object, bytes)) return;
  Record(kAllocated, object, frame, region, bytes, usable > bytes ? usable - bytes : 0);
}

void Free(const void* object, const void* frame) {
  if (object == nullptr || PowerNow() != Power::kOn) return;
  if (sampled != nullptr && (!sampled->MayContain(object) || !sampled->Remove(object))) return;
  Record(kFreed, object, frame);
}

void Clear(Region region, const void* frame) {
  if (region != 0 && PowerNow() == Power::kOn) Record(kCleared, nullptr, frame, region);
}

void Destroy(Region region, const void* frame) {
  if (region != 0 && PowerNow() == Power::kOn) Record(kDestroyed, nullptr, frame, region);
}

// A sample takes none of what passes.
void BeginOwn() {
  if (own_of_region++ != 0 || sampled == nullptr) return;
  saved_bytes_left = bytes_left;
  bytes_left = ~std::uint64_t{0};
}

void EndOwn() {
  if (--own_of_region == 0 && sampled != nullptr) bytes_left = saved_bytes_left;
}

// Where no frame is given it is that of the function here.
#define FRAME (frame != nullptr ? frame : __builtin_frame_address(0))

}  // namespace
}  // namespace tare::recorder

using tare::regions::Region;

extern "C" __attribute__((
    visibility("default"))) constinit const tare::regions::Recorder tare_recorder_regions = {
    .create = [](Region parent, const void* frame) -> Region {
      return tare::recorder::Create(parent, FRAME);
    },
    .allocate =
        [](Region region, const void* object, std::size_t bytes, std::size_t usable,
           const void* frame) { tare::recorder::Allocate(region, object, bytes, usable, FRAME); },
    .free = [](const void* object, const void* frame) { tare::recorder::Free(object, FRAME); },
    .clear = [](Region region, const void* frame) { tare::recorder::Clear(region, FRAME); },
    .destroy = [](Region region, const void* frame) { tare::recorder::Destroy(region, FRAME); },
    .begin_own = tare::recorder::BeginOwn,
    .end_own = tare::recorder::EndOwn,
};
