// Begins a recorder as the environment wants it, with the first call that needs one.

#pragma once

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "environment.hpp"
#include "event.hpp"
#include "inner.hpp"
#include "process.hpp"
#include "sampling.hpp"
#include "snapshots/snapshots.hpp"
#include "switch.hpp"
#include "thread.hpp"

namespace tare::recorder {

inline constexpr const char* kFolderVariable = "TARE_RECORDER_FOLDER";
inline constexpr const char* kStacksVariable = "TARE_RECORDER_STACKS";
inline constexpr const char* kSampleVariable = "TARE_RECORDER_SAMPLE";
inline constexpr const char* kSwitchVariable = "TARE_RECORDER_SWITCH";
inline constexpr const char* kSignalVariable = "TARE_RECORDER_SIGNAL";
inline constexpr std::size_t kLargestSample = std::size_t{1} << 40;

inline void EndOfThread(void* record) {
  RecordRest();
  EndThread(record);
}

// As tare::Resolve, but a layer of Tare's may stand in between, which leaves malloc_usable_size to
// the allocator.
inline void ResolveBehindLayers(Inner& inner) {
  RequireNext("malloc", inner.malloc);
  RequireNext("calloc", inner.calloc);
  RequireNext("realloc", inner.realloc);
  RequireNext("free", inner.free);
  if (strstr(FileOf(inner.free), "/libtare-") != nullptr)
    RequireNext("malloc_usable_size", inner.usable_size);
  else
    Resolve(inner);
}

inline bool SizeIsInHeader() {
  void* const object = setting.inner.malloc(1);
  if (object == nullptr) return false;
  const bool in_header = HeaderTellsSize(setting.inner, object);
  setting.inner.free(object);
  return in_header;
}

__attribute__((noinline)) inline void Begin() {
  // The dynamic linker allocates before the C library knows its environment.
  static constinit std::uint64_t early_births = 0;
  // A program may write over its environment, to change its title.
  static constinit char folder[kPathBytes] = {};
  const KeepErrno keep;
  snapshot::Prepare();
  if (setting.inner.usable_size == nullptr) ResolveBehindLayers(setting.inner);
  if (environ == nullptr) {
    ++early_births;
    return;
  }
  main_switch = &no_switch;
  setting.inner.size_in_header = SizeIsInHeader();
  setting.has_stacks = ReadChoice(kStacksVariable, true, "yes", "no");
  setting.has_python = setting.has_stacks && python::FindInterpreter();
  if (const char* const name = getenv(kFolderVariable); name != nullptr) {
    strncpy(folder, name, sizeof folder - 1);
    setting.folder = folder;
  }
  setting.sample_bytes = ReadBytes(kSampleVariable, 0, 0, kLargestSample);
  if (setting.sample_bytes != 0) sampled = static_cast<Sampled*>(MapOwn(sizeof(Sampled)));
  ChooseClock();
  pthread_key_create(&thread_end, EndOfThread);
  process = static_cast<Process*>(MapOwn(sizeof(Process)));
  if (process != nullptr && IsOpen()) process->header->early = early_births;
  if (const char* const path = getenv(kSwitchVariable); path != nullptr)
    main_switch = MapSwitch(path);
  if (const std::size_t number = ReadBytes(kSignalVariable, 0, 0, SIGRTMAX);
      number != 0 && HasSwitch())
    TurnOnSignal(static_cast<int>(number));
}

inline void BeginOnce() {
  if (PowerNow() == Power::kNotBegun) [[unlikely]]
    Begin();
}

__attribute__((noinline)) inline bool IsOffNow() {
  BeginOnce();
  if (PowerNow() == Power::kOn) return false;
  SkipSample();
  return PowerNow() == Power::kOff;
}

inline bool IsOff() {
  const Power power = PowerNow();
  if (power == Power::kOn) [[likely]]
    return false;
  return (power == Power::kOff && sampled == nullptr) || IsOffNow();
}

}  // namespace tare::recorder
