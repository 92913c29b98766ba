#include "noted.hpp"

#include <algorithm>
#include <atomic>

#include "file.hpp"
#include "format.hpp"
#include "tare/platform/maps.hpp"

namespace tare::recorder::snapshot {
namespace {

constexpr std::size_t kMostOwn = 4096, kMostThreads = 4096, kMostMappings = 8192, kMostStart = 256;

constinit Range own[kMostOwn] = {};
constinit std::uint64_t threads[kMostThreads] = {};
constinit Range start[kMostStart] = {};
constinit std::size_t starts = 0;
constinit Mapping mappings[kMostMappings] = {};
constinit std::atomic<std::size_t> owns{0}, threads_seen{0}, mappings_seen{0};

}  // namespace

void NoteStart() {
  if (starts != 0) return;
  platform::MapsReader maps;
  for (platform::MapsRow row; starts < kMostStart && maps.Next(row);)
    if (!row.has_file && *maps.Name() == '\0') start[starts++] = {row.start, row.end - row.start};
}

void NoteThread() {
  const std::size_t place = threads_seen.fetch_add(1, std::memory_order_relaxed) % kMostThreads;
  threads[place] = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
}

void NoteOwn(std::uint64_t address, std::size_t bytes) {
  const std::size_t place = owns.fetch_add(1, std::memory_order_relaxed);
  if (place < kMostOwn) own[place] = {address, bytes};
}

void NoteMapping(std::uint64_t address, std::size_t bytes, const void* call) {
  const std::size_t place = mappings_seen.fetch_add(1, std::memory_order_relaxed) % kMostMappings;
  mappings[place] = {address, bytes, reinterpret_cast<std::uint64_t>(call)};
}

void PutNoted(Writer& writer) {
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
