// What hardened reaps check. Behind the bytes asked for stands a guard word, which depends on the
// object's address. A write past the end changes it; one before the beginning changes the word
// with the size, so that the guard is looked for in the wrong place.

#pragma once

#include "reap.hpp"

namespace tare::reap {

inline constexpr std::size_t kGuardBytes = sizeof(std::uint64_t);

inline std::uint64_t GuardOf(const void* object) {
  constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15;
  return (reinterpret_cast<std::uintptr_t>(object) ^ kMix) * kMix;
}

[[noreturn]] inline void Report(const char* what, const void* object) {
  Message message;
  message << "tare-reap: " << what << ": ";
  message.Hexadecimal(reinterpret_cast<std::uintptr_t>(object));
  Abort(message);
}

[[noreturn]] __attribute__((cold)) inline void ReportDoubleFree(const void* object) {
  Report("double free of the object", object);
}

inline void SetGuard(void* object, std::size_t size) {
  const std::uint64_t guard = GuardOf(object);
  memcpy(static_cast<char*>(object) + size, &guard, sizeof guard);
}

// The bytes asked for. The word counts the guard.
inline std::size_t GuardedSize(void* object) {
  const Word word = WordOf(object);
  return (word & kLarge ? ChunkOfLarge(object)->asked : word) - kGuardBytes;
}

inline void CheckGuard(void* object) {
  const Word word = WordOf(object);
  if (word & kFree) ReportDoubleFree(object);
  const std::size_t size = GuardedSize(object);
  const auto* const at = static_cast<const char*>(object);
  if (!(word & kLarge) && size > kLargestBlock)
    Report("not an object, or written before its beginning", object);
  if (owner_map.Get(at + size) != owner_map.Get(object))
    Report("not an object, or written before its beginning", object);
  std::uint64_t guard;
  memcpy(&guard, at + size, sizeof guard);
  if (guard != GuardOf(object))
    Report("not an object, or written before its beginning or past its end", object);
}

// `object` is to be freed or moved as one of `reap`.
inline void CheckOwner(const Reap& reap, void* object) {
  const Reap* const owner = owner_map.Get(object);
  if (owner == nullptr || owner->root == nullptr)
    Report("freed into a reap, but in no reap", object);
  if (owner->root != &reap) Report("freed into a reap, but of another one", object);
  if (reinterpret_cast<std::uintptr_t>(object) % kUnit != 0) Report("not an object", object);
}

}  // namespace tare::reap
