// What is noted while the program runs, for the snapshots: who made which mapping, which threads
// allocate. A child of a fork has it in common with its parent.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "file.hpp"
#include "format.hpp"
#include "tare/platform/maps.hpp"

namespace tare::recorder::snapshot {

inline constexpr std::size_t kMostOwn = 4096, kMostThreads = 4096, kMostMappings = 8192,
                             kMostStart = 256;

constinit inline Range own[kMostOwn] = {};
constinit inline std::uint64_t threads[kMostThreads] = {};
constinit inline Range start[kMostStart] = {};
constinit inline std::size_t starts = 0;
constinit inline Mapping mappings[kMostMappings] = {};
constinit inline std::atomic<std::size_t> owns{0}, threads_seen{0}, mappings_seen{0};

// The mappings that are there without a name, before the allocator's first operation.
inline void NoteStart() {
  platform::MapsReader maps;
  for (platform::MapsRow row; starts < kMostStart && maps.Next(row);)
    if (!row.has_file && *maps.Name() == '\0') start[starts++] = {row.start, row.end - row.start};
}

// This thread is one that allocates.
inline void NoteThread() {
  const std::size_t place = threads_seen.fetch_add(1, std::memory_order_relaxed) % kMostThreads;
  threads[place] = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
}

inline void NoteOwn(std::uint64_t address, std::size_t bytes) {
  const std::size_t place = owns.fetch_add(1, std::memory_order_relaxed);
  if (place < kMostOwn) own[place] = {address, bytes};
}

inline void NoteMapping(std::uint64_t address, std::size_t bytes, const void* call) {
  const std::size_t place = mappings_seen.fetch_add(1, std::memory_order_relaxed) % kMostMappings;
  mappings[place] = {address, bytes, reinterpret_cast<std::uint64_t>(call)};
}

inline void PutNoted(Writer& writer) {
  writer.Put(kOwn, own, std::min(owns.load(), kMostOwn) * sizeof own[0]);
  const std::size_t seen = mappings_seen.load();
  if (seen >= kMostMappings) {  // a ring: the older part first
    const std::size_t at = seen % kMostMappings;
    writer.Put(kMapped, mappings + at, (kMostMappings - at) * sizeof mappings[0]);
  }
  writer.Put(kMapped, mappings, (seen % kMostMappings) * sizeof mappings[0]);
  writer.Put(kThreads, threads, std::min(threads_seen.load(), kMostThreads) * sizeof threads[0]);
  writer.Put(kStart, start, starts * sizeof start[0]);
}

}  // namespace tare::recorder::snapshot
