// What the threads of a process share, and the memory that the shims keep for themselves.

#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>

#include "counters.hpp"
#include "inner.hpp"
#include "options.hpp"
#include "process_counters.hpp"
#include "regions.hpp"
#include "tare/reap.h"

namespace tare::regions {

struct Process {
  Options options;
  const char* folder = nullptr;
  Header* header = nullptr;
  Recorder recorder{};
  reap_t* own = nullptr;  // lists of pointers and what describes regions
  bool began = false;
  bool is_watching = false;  // regions are counted, or told to a recorder
  bool is_quick = false;     // objects come from regions or reaps, and nobody watches
};

constinit inline Process process;

[[noreturn]] inline void NoMemory() {
  Message message;
  message << "tare: there is no memory for the shims of regions";
  Abort(message);
}

// A forked process counts by itself, from what lives in it now.
inline void AfterFork() {
  Header* const before = process.header;
  bool reported = false;
  process.header = OpenCounters<Header>(process.folder, true, reported);
  if (process.header == nullptr) NoMemory();
  if (!reported) ++before->uncounted;
  const auto go_on = [](Level& level, const Level& parent) {
    level.now = level.most = parent.now.load(std::memory_order_relaxed);
  };
  for (int kind = 0; kind < kKinds; ++kind) {
    go_on(process.header->kinds[kind].regions, before->kinds[kind].regions);
    go_on(process.header->kinds[kind].objects, before->kinds[kind].objects);
    go_on(process.header->kinds[kind].bytes, before->kinds[kind].bytes);
  }
  go_on(process.header->all_objects, before->all_objects);
  go_on(process.header->all_bytes, before->all_bytes);
  memcpy(process.header->names, before->names, sizeof before->names);
  munmap(before, Header::kFileBytes);
}

// At the first call of a shim, and at the latest as a constructor.
inline void Begin() {
  if (process.began) return;
  process.began = true;
  process.options = ReadOptions();
  process.folder = getenv("TARE_REGIONS_COUNTERS");
  bool reported = false;
  process.header = OpenCounters<Header>(process.folder, false, reported);
  process.own = reap_create_with(nullptr, REAP_SHARED);
  if (process.header == nullptr || process.own == nullptr) NoMemory();
  process.recorder = FindRecorder();
  process.is_watching = process.options.statistics || process.recorder.create != nullptr;
  const Route route = process.options.route;
  process.is_quick = !process.is_watching && (route == Route::kRegion || route == Route::kReap);
  Inner inner;
  RequireNext("malloc", inner.malloc);
  RequireNext("free", inner.free);
  ShowInner(*process.header, inner);
  pthread_atfork(nullptr, nullptr, AfterFork);
}

struct OwnMemory {
  static void* Resize(void* memory, std::size_t bytes) {
    return reap_realloc(process.own, memory, bytes);
  }
  static void Free(void* memory) {
    if (memory != nullptr) reap_free(process.own, memory);
  }
};

}  // namespace tare::regions
