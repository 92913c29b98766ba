// Sampling: of the bytes that are allocated, one in so many, by chance, is marked, and what has a
// marked byte is recorded. So the chance of an object is known from its size:
// 1 - exp(-size / interval).

#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "process.hpp"
#include "thread.hpp"

namespace tare::recorder {

// Bytes of this thread up to the next that is marked; 0 at its start, and where all is recorded.
constinit inline thread_local TARE_INITIAL_EXEC std::uint64_t bytes_left = 0;
constinit inline thread_local TARE_INITIAL_EXEC std::uint64_t bytes_drawn = 0;
constinit inline thread_local TARE_INITIAL_EXEC std::uint64_t chance = 0;

inline bool WouldPass(std::size_t bytes) { return bytes < bytes_left; }

// Whether none of so many bytes is marked; then they are counted.
inline bool Passes(std::size_t bytes) {
  if (!WouldPass(bytes)) return false;
  bytes_left -= bytes;
  return true;
}

inline std::uint64_t Random() {  // xorshift64*
  if (chance == 0) chance = Nanoseconds() ^ reinterpret_cast<std::uintptr_t>(&chance);
  chance ^= chance >> 12;
  chance ^= chance << 25;
  chance ^= chance >> 27;
  return chance * 0x2545F4914F6CDD1Du;
}

// -log2 of a number in (0, 1], without a library: its exponent, and a polynomial of its mantissa
// that is at most 3e-5 off.
inline double NegativeLog2(double number) {
  std::uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  const auto exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  bits = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1023} << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  x -= 1;
  const double log =
      x * (1.44174 + x * (-0.70777 + x * (0.412344 + x * (-0.190319 + x * 0.044005))));
  return -(exponent + log);
}

// The number of the next byte that is marked, from 1.
inline std::uint64_t Draw(std::size_t interval) {
  constexpr double kLog2 = 0.6931471805599453;
  const double uniform = static_cast<double>((Random() >> 11) + 1) * 0x1p-53;
  return 1 +
         static_cast<std::uint64_t>(NegativeLog2(uniform) * kLog2 * static_cast<double>(interval));
}

// At an object of so many bytes that does not pass: whether it is to be recorded, and how many
// bytes came since the last that was.
inline bool TakeSample(std::size_t bytes, std::uint64_t& skipped) {
  if (bytes_drawn == 0) {  // the first of this thread
    bytes_drawn = bytes_left = Draw(setting.sample_bytes);
    if (Passes(bytes)) return false;
  }
  skipped = bytes_drawn - bytes_left;
  bytes_drawn = bytes_left = Draw(setting.sample_bytes);
  return true;
}

// At an object that does not pass, while nothing is recorded. What comes by chance has no memory.
inline void SkipSample() {
  if (setting.sample_bytes != 0) bytes_drawn = bytes_left = Draw(setting.sample_bytes);
}

// The objects that are recorded and alive. Most frees are of others, which a table of counts tells
// without a lock.
class Sampled {
 public:
  bool MayContain(const void* object) const {
    return counts_[CountOf(object)].load(std::memory_order_relaxed) != 0;
  }

  void Insert(const void* object) {
    const BlockSignals blocked;
    const std::scoped_lock guard(lock_);
    if (2 * (used_ + 1) > places_ && !Grow()) return;
    if (!Put(object)) return;
    ++used_;
    auto& count = counts_[CountOf(object)];
    if (const std::uint8_t before = count.load(std::memory_order_relaxed); before != kFull)
      count.store(static_cast<std::uint8_t>(before + 1), std::memory_order_relaxed);
  }

  // False where it was not there.
  bool Remove(const void* object) {
    const BlockSignals blocked;
    const std::scoped_lock guard(lock_);
    if (places_ == 0) return false;
    std::size_t hole = Home(object);
    for (; objects_[hole] != object; hole = After(hole))
      if (objects_[hole] == nullptr) return false;
    for (std::size_t at = After(hole); objects_[at] != nullptr; at = After(at)) {
      if (((at - Home(objects_[at])) & (places_ - 1)) < ((at - hole) & (places_ - 1))) continue;
      objects_[hole] = objects_[at];
      hole = at;
    }
    objects_[hole] = nullptr;
    --used_;
    auto& count = counts_[CountOf(object)];
    if (const std::uint8_t before = count.load(std::memory_order_relaxed); before != kFull)
      count.store(static_cast<std::uint8_t>(before - 1), std::memory_order_relaxed);
    return true;
  }

 private:
  static constexpr std::size_t kCounts = 1 << 16, kFirstPlaces = 1 << 10;
  static constexpr std::uint8_t kFull = 255;  // or more: it stays

  // Neighbours in memory are neighbours here, so a look seldom misses the cache.
  static std::size_t CountOf(const void* object) {
    return (reinterpret_cast<std::uintptr_t>(object) >> 4) % kCounts;
  }
  static std::size_t PlaceOf(const void* object) {
    return static_cast<std::size_t>(
        (reinterpret_cast<std::uintptr_t>(object) * 0x9E3779B97F4A7C15u) >> 32);
  }
  std::size_t Home(const void* object) const { return PlaceOf(object) & (places_ - 1); }
  std::size_t After(std::size_t at) const { return (at + 1) & (places_ - 1); }

  bool Put(const void* object) {
    std::size_t at = Home(object);
    for (; objects_[at] != nullptr; at = After(at))
      if (objects_[at] == object) return false;
    objects_[at] = object;
    return true;
  }

  bool Grow() {
    const std::size_t before = places_;
    const void** const objects = objects_;
    const std::size_t places = before == 0 ? kFirstPlaces : 2 * before;
    auto* const larger = static_cast<const void**>(MapOwn(places * sizeof *objects_));
    if (larger == nullptr) return false;
    objects_ = larger;
    places_ = places;
    for (std::size_t i = 0; i < before; ++i)
      if (objects[i] != nullptr) Put(objects[i]);
    if (before != 0) munmap(objects, before * sizeof *objects);
    return true;
  }

  SpinLock lock_;
  const void** objects_;
  std::size_t places_, used_;
  std::atomic<std::uint8_t> counts_[kCounts];
};

// nullptr where all objects are recorded.
constinit inline Sampled* sampled = nullptr;

}  // namespace tare::recorder
