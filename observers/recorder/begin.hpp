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

// What is recorded, and where; nullptr where nothing is.
struct Wanted {
  const char* folder;
  bool has_stacks;
  std::size_t sample_bytes;
  const char* switch_path;  // nullptr: it cannot be turned off
};

// The allocator must be known.
inline void BeginAs(const Wanted& wanted, std::uint64_t early_births) {
  // A program may write over its environment, to change its title.
  static constinit char folder[kPathBytes] = {};
  main_switch = &no_switch;
  setting.inner.size_in_header = SizeIsInHeader();
  setting.has_stacks = wanted.has_stacks;
  setting.has_python = setting.has_stacks && python::FindInterpreter();
  if (wanted.folder != nullptr) {
    strncpy(folder, wanted.folder, sizeof folder - 1);
    setting.folder = folder;
  }
  setting.sample_bytes = wanted.sample_bytes;
  if (setting.sample_bytes != 0) sampled = static_cast<Sampled*>(MapOwn(sizeof(Sampled)));
  ChooseClock();
  pthread_key_create(&thread_end, EndOfThread);
  process = static_cast<Process*>(MapOwn(sizeof(Process)));
  if (process != nullptr && IsOpen()) process->header->early = early_births;
  if (wanted.switch_path != nullptr) main_switch = MapSwitch(wanted.switch_path);
}

__attribute__((noinline)) inline void Begin() {
  // The dynamic linker allocates before the C library knows its environment.
  static constinit std::uint64_t early_births = 0;
  const KeepErrno keep;
  snapshot::Prepare();
  if (setting.inner.usable_size == nullptr) ResolveBehindLayers(setting.inner);
  if (environ == nullptr) {
    ++early_births;
    return;
  }
  BeginAs({getenv(kFolderVariable), ReadChoice(kStacksVariable, true, "yes", "no"),
           ReadBytes(kSampleVariable, 0, 0, kLargestSample), getenv(kSwitchVariable)},
          early_births);
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
