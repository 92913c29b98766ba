// A region of a program, served as the options say, counted, and told to the recorder.

#pragma once

#include <sys/single_threaded.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "bump_region.hpp"
#include "process.hpp"
#include "tare/reap.h"
#include "tare/region_emulation.hpp"

namespace tare::regions {

inline void CountRegion(Kind kind) {
  SharedCount& total = process.header->kinds[kind].regions.total;
  if (__libc_single_threaded)
    total.store(total.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else
    total.fetch_add(1, std::memory_order_relaxed);
}

class ServedRegion {
 public:
  ServedRegion(Kind kind, const ServedRegion* parent, const void* frame) : kind_(kind) {
    if (process.options.statistics)
      Counts().regions.Add(1);
    else
      CountRegion(kind);
    if (process.recorder.create != nullptr)
      recorded_ = process.recorder.create(parent != nullptr ? parent->recorded_ : 0, frame);
  }
  ServedRegion(const ServedRegion&) = delete;
  ServedRegion& operator=(const ServedRegion&) = delete;

  // What can be had by moving a pointer, of a region or a reap; else nullptr.
  void* TryBump(std::size_t bytes) {
    return process.options.route == Route::kReap ? TryBumpInReap(bytes) : bump_.TryBump(bytes);
  }
  void* TryBumpInReap(std::size_t bytes) {
    constexpr std::size_t kWord = sizeof(unsigned), kUnit = 16;
    if (reap_ == nullptr || bytes > PTRDIFF_MAX) return nullptr;
    const std::size_t block = reap::RoundUp(bytes + kWord, kUnit);
    char* const object = reap_->reap_position;
    if (block > static_cast<std::size_t>(reap_->reap_limit - object)) return nullptr;
    reap_->reap_position = object + block;
    reinterpret_cast<unsigned*>(object)[-1] = static_cast<unsigned>(bytes);
    return object;
  }

  // nullptr when memory is short. Not for the original.
  void* Allocate(std::size_t bytes) {
    if (process.options.route == Route::kReap) {
      if (reap_ == nullptr && !MakeReap()) [[unlikely]]
        return nullptr;
      return reap_malloc(reap_, bytes);
    }
    return process.options.route == Route::kRegion ? bump_.Allocate(bytes)
                                                   : emulated_.Allocate(bytes);
  }

  // What was allocated is an object of this region.
  void Watch(void* object, std::size_t bytes, const void* frame) {
    if (object == nullptr || !process.is_watching) [[likely]]
      return;
    if (process.options.statistics) {
      ++objects_;
      bytes_ += bytes;
      Counts().objects.Add(1);
      Counts().bytes.Add(bytes);
      process.header->all_objects.Add(1);
      process.header->all_bytes.Add(bytes);
    }
    if (recorded_ != 0)
      process.recorder.allocate(recorded_, ProgramsPartOf(object), bytes, bytes, frame);
  }

  // One object. A plain region keeps it, as the original does.
  void Free(void* object, const void* frame) {
    if (object == nullptr) return;
    const Route route = process.options.route;
    if (process.options.statistics) Counts().freed_objects.fetch_add(1, std::memory_order_relaxed);
    if (route == Route::kOriginal || route == Route::kRegion) return;
    if (recorded_ != 0) process.recorder.free(ProgramsPartOf(object), frame);
    if (route == Route::kReap) reap_free(reap_, object);
    if (route == Route::kEmulation) emulated_.Free(object);
  }

  void Clear(const void* frame) {
    Forget();
    if (process.options.statistics) Counts().cleared.fetch_add(1, std::memory_order_relaxed);
    if (recorded_ != 0) process.recorder.clear(recorded_, frame);
    switch (process.options.route) {
      case Route::kOriginal:
        return;
      case Route::kEmulation:
        return emulated_.Clear();
      case Route::kRegion:
        return bump_.Clear();
      case Route::kReap:
        if (reap_ != nullptr) reap_free_all(reap_);
    }
  }

  // Its end; it must not be used any more.
  void Destroy(const void* frame) {
    Forget();
    if (process.options.statistics) Counts().regions.Subtract(1);
    if (recorded_ != 0) process.recorder.destroy(recorded_, frame);
    if (reap_ != nullptr) reap_destroy(reap_);
    bump_.Destroy();
    emulated_.~EmulatedRegion();
  }

 private:
  struct Malloc {
    static void* Allocate(std::size_t bytes) {
      if (process.recorder.begin_own == nullptr) [[likely]]
        return malloc(bytes);
      process.recorder.begin_own();
      void* const object = malloc(bytes);
      process.recorder.end_own();
      return object;
    }
    static void Free(void* object) { free(object); }
  };

  // Where the part of an object begins that is the program's.
  const void* ProgramsPartOf(const void* object) const {
    constexpr std::size_t kHeadOfOthers = 16;
    return static_cast<const char*>(object) + (kind_ == kApr ? 0 : kHeadOfOthers);
  }

  KindCounts& Counts() const { return process.header->kinds[kind_]; }

  __attribute__((noinline)) bool MakeReap() {
    reap_ = reap_create(nullptr);
    return reap_ != nullptr;
  }

  void Forget() {
    if (objects_ == 0) return;
    Counts().objects.Subtract(objects_);
    Counts().bytes.Subtract(bytes_);
    process.header->all_objects.Subtract(objects_);
    process.header->all_bytes.Subtract(bytes_);
    objects_ = bytes_ = 0;
  }

  reap_t* reap_ = nullptr;  // made with the first object, as many regions never have one
  BumpRegion bump_;
  EmulatedRegion<Malloc, OwnMemory> emulated_;
  Count objects_ = 0;
  Count bytes_ = 0;
  Region recorded_ = 0;  // its number in the recording
  Kind kind_;
};

}  // namespace tare::regions
