// A shared reap: each thread allocates in one of several reaps, its lane, under that lane's lock.
// An object is freed into the lane that its memory belongs to, whichever thread frees it.

#pragma once

#include "variant.hpp"

namespace tare::reap {

inline constexpr unsigned kLanes = 16;

inline unsigned ThreadNumber() {
  constinit static std::atomic<unsigned> threads = 0;
  constinit static thread_local unsigned number __attribute__((tls_model("initial-exec"))) = 0;
  if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

inline bool IsShared(const Reap& reap) { return reap.lanes != nullptr; }

// False when memory is short.
inline bool MakeLanes(Reap& reap) {
  void* const place = reap.Allocate(kLanes * sizeof(std::atomic<Reap*>));
  if (place == nullptr) return false;
  reap.lanes = new (place) std::atomic<Reap*>[kLanes] {};
  return true;
}

inline Reap* MakeLane(Reap& reap, std::atomic<Reap*>& place) {
  const std::scoped_lock guard(reap.lock);
  if (Reap* const lane = place.load(std::memory_order_relaxed)) return lane;
  Reap* const lane = Reap::Create(reap.options);
  if (lane != nullptr) lane->root = &reap;
  place.store(lane, std::memory_order_release);
  return lane;
}

// Of this thread; nullptr when memory is short.
inline Reap* LaneOfThread(Reap& reap) {
  std::atomic<Reap*>& place = reap.lanes[ThreadNumber() % kLanes];
  Reap* const lane = place.load(std::memory_order_acquire);
  return lane != nullptr ? lane : MakeLane(reap, place);
}

// `work` on each reap that holds objects of `reap`.
template <typename Work>
void ForEachLane(Reap& reap, Work work) {
  if (!IsShared(reap)) return work(reap);
  for (unsigned i = 0; i < kLanes; ++i) {
    Reap* const lane = reap.lanes[i].load(std::memory_order_acquire);
    if (lane == nullptr) continue;
    const std::scoped_lock guard(lane->lock);
    work(*lane);
  }
}

// `work` on the reap that this thread allocates in: what it returns, or nullptr.
template <typename Work>
void* InLaneOfThread(Reap& reap, Work work) {
  if (!IsShared(reap)) return work(reap);
  Reap* const lane = LaneOfThread(reap);
  if (lane == nullptr) return nullptr;
  const std::scoped_lock guard(lane->lock);
  return work(*lane);
}

// `work` on the reap that `object`, which is of `reap`, lies in.
template <typename Work>
auto InLaneOf(Reap& reap, const void* object, Work work) {
  if (!IsShared(reap)) return work(reap);
  Reap& lane = *owner_map.Get(object);
  const std::scoped_lock guard(lane.lock);
  return work(lane);
}

__attribute__((noinline)) inline void EndLanes(Reap& reap) {
  for (unsigned i = 0; i < kLanes; ++i)
    if (Reap* const lane = reap.lanes[i].load(std::memory_order_acquire)) lane->End();
}

}  // namespace tare::reap
