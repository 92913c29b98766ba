#include "snapshots.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "file.hpp"
#include "format.hpp"
#include "noted.hpp"
#include "resident.hpp"
#include "system.hpp"
#include "tare/platform/memory.hpp"
#include "tare/platform/proc_file.hpp"

// Of a layer that stands in between, if one does. dlsym would allocate where there is none.
extern "C" void tare_layer_held(void (*each)(void*, std::size_t, void*), void* data)
    __attribute__((weak));

namespace tare::recorder::snapshot {
namespace {

constexpr const char* kFolderVariable = "TARE_RECORDER_SNAPSHOTS";
constexpr std::size_t kPathBytes = 1024;
constexpr std::uint32_t kMostRetained = 64;
constexpr std::uint64_t kFirstInterval = 1 << 20;
constexpr std::uint64_t kLeastGrant = 128 << 10, kMostGrant = 8 << 20;
constexpr std::uint64_t kGrantShare = 32;  // of resident memory
// A new peak is 2% over the last one, or 1% as a rise of what lives ends; or 10% once snapshots
// took a tenth of the time and some nanoseconds.
constexpr std::uint64_t kUsualStep = 1020, kRiseStep = 1010, kCoarseStep = 1100, kWhole = 1000;
constexpr std::uint64_t kLargestWalked = 64 << 20;  // to know its resident bytes exactly
constexpr std::uint64_t kMostShareOfTime = 10, kGrace = 200'000'000;

struct State {
  char recording[kPathBytes];
  char stem[kPathBytes];
  std::atomic<bool> busy;
  std::atomic<std::uint64_t> moved;
  std::uint64_t grant;
  std::uint64_t highest;
  std::uint64_t next;
  std::uint64_t interval;
  std::uint64_t origin;
  bool forked;
  std::uint64_t spent;
  std::uint32_t serial;
  std::uint32_t retained;
  std::uint32_t retained_serials[kMostRetained];
};
constinit State state{};

// A program may write over its environment, to change its title.
constinit char folder[kPathBytes] = {};

class Path {
 public:
  explicit Path(const char* name) { text_ << state.stem << ".snapshot." << name; }
  explicit Path(std::uint64_t number) { text_ << state.stem << ".snapshot." << number; }
  const char* Text() { return text_.Text(); }

 private:
  Message text_;
};

// The first number after `before` in a file; 0 without one.
std::uint64_t NumberIn(const char* path, const char* before) {
  const platform::ProcFile file(path);
  char text[512];
  const long count = file.Read(text, sizeof text - 1);
  if (count <= 0) return 0;
  text[count] = '\0';
  const char* const found = strstr(text, before);
  return found != nullptr ? strtoull(found + strlen(before), nullptr, 10) : 0;
}

// Quick, and off by 32 pages or more for each processor: the kernel counts apart there.
std::uint64_t ResidentBytes() { return NumberIn("/proc/self/statm", " ") * platform::PageBytes(); }

// By a walk over all pages.
std::uint64_t ExactResidentBytes() { return NumberIn("/proc/self/smaps_rollup", "Rss:") << 10; }

void PutRetained(void* object, std::size_t bytes, void* writer) {
  const Range range{reinterpret_cast<std::uint64_t>(object), bytes};
  static_cast<Writer*>(writer)->Put(kRetained, &range, sizeof range);
}

std::uint64_t SinceOrigin() { return Nanoseconds() - state.origin; }

bool OverBudget() { return state.spent > kGrace + SinceOrigin() / kMostShareOfTime; }

Moment Now() {
  const std::uint64_t step = OverBudget() ? kCoarseStep : kUsualStep;
  return {kMagic, state.origin, SinceOrigin(), 0, state.forked, state.spent, step};
}

bool Take(const char* path) {
  Writer writer(path);
  Moment moment = Now();
  writer.Put(kMoment, &moment, sizeof moment);
  PutResident(writer);
  Copy(writer, kRollup, "/proc/self/smaps_rollup");
  Copy(writer, kMaps, "/proc/self/maps");
  PutNoted(writer);
  writer.Put(kFolder, state.recording, strlen(state.recording));
  if (tare_layer_held != nullptr) tare_layer_held(PutRetained, &writer);
  moment.end = SinceOrigin();
  writer.Put(kMoment, &moment, sizeof moment);
  writer.Finish();
  state.spent += moment.end - moment.begin;
  return !writer.Failed();
}

// Every second one goes, and from here on half as many are taken.
void ThinOut() {
  for (std::uint32_t i = 0; i < kMostRetained; ++i) {
    if (i % 2 == 1) {
      unlink(Path(state.retained_serials[i]).Text());
    } else {
      state.retained_serials[i / 2] = state.retained_serials[i];
    }
  }
  state.retained = kMostRetained / 2;
  state.interval *= 2;
}

void TakePeak(bool is_moment) {
  Path fresh("new"), peak("peak");
  const std::uint32_t serial = state.serial;
  Path numbered(serial);
  const char* const path = is_moment ? numbered.Text() : fresh.Text();
  if (!Take(path)) {
    unlink(path);
    return;
  }
  if (is_moment) {
    unlink(fresh.Text());
    if (link(path, fresh.Text()) != 0) return;
  }
  rename(fresh.Text(), peak.Text());
}

std::uint64_t ResidentAt(Occasion occasion) {
  const std::uint64_t about = ResidentBytes();
  if (occasion == Occasion::kUsual || about > kLargestWalked || OverBudget()) return about;
  const std::uint64_t begin = SinceOrigin();
  const std::uint64_t exact = ExactResidentBytes();
  state.spent += SinceOrigin() - begin;
  return exact != 0 ? exact : about;
}

std::uint64_t StepAt(Occasion occasion, bool is_over_budget) {
  if (is_over_budget && occasion != Occasion::kEnd) return kCoarseStep;
  return occasion == Occasion::kRiseEnds ? kRiseStep : kUsualStep;
}

void TakeWhatIsDue(std::uint64_t moved, Occasion occasion) {
  const std::uint64_t resident = ResidentAt(occasion);
  const bool over = OverBudget();
  const std::uint64_t step = StepAt(occasion, over);
  const bool is_peak = resident * kWhole > state.highest * step;
  const bool is_due = moved >= state.next && !over;
  const bool is_moment = is_due || (is_peak && occasion != Occasion::kUsual);
  state.grant = std::clamp(resident / kGrantShare, kLeastGrant, kMostGrant);
  if (is_moment && state.retained == kMostRetained) ThinOut();
  if (is_peak) {
    state.highest = resident;
    TakePeak(is_moment);
  } else if (is_moment && !Take(Path(state.serial).Text())) {
    unlink(Path(state.serial).Text());
  }
  if (is_moment) state.retained_serials[state.retained++] = state.serial++;
  if (is_due) state.next = moved + state.interval;
}

std::int64_t LookNow(std::uint64_t moved, Occasion occasion) {
  const KeepErrno keep;
  if (state.busy.exchange(true, std::memory_order_acquire)) return kLeastGrant;
  TakeWhatIsDue(moved, occasion);
  const std::uint64_t grant = state.grant;
  state.busy.store(false, std::memory_order_release);
  return static_cast<std::int64_t>(grant);
}

}  // namespace

void Prepare() {
  const KeepErrno keep;
  if (environ != nullptr) {
    const char* const name = getenv(kFolderVariable);
    if (name == nullptr || *name != '/' || strlen(name) >= sizeof folder) return;
    strncpy(folder, name, sizeof folder - 1);
    on = true;
  }
  NoteStart();
}

void Begin(const char* stem, std::uint64_t origin, bool forked) {
  const KeepErrno keep;
  memset(static_cast<void*>(&state), 0, sizeof state);
  const char* const name = strrchr(stem, '/');
  if (name == nullptr) return;
  memcpy(state.recording, stem,
         std::min(static_cast<std::size_t>(name - stem), sizeof state.recording - 1));
  Message own_stem;
  own_stem << folder << name;
  const char* const text = own_stem.Text();
  memcpy(state.stem, text, std::min(strlen(text), sizeof state.stem - 1));
  state.interval = kFirstInterval;
  state.grant = kLeastGrant;
  state.origin = origin;
  state.forked = forked;
}

std::int64_t Look(std::int64_t bytes, Occasion occasion) {
  const auto more = static_cast<std::uint64_t>(bytes);
  return LookNow(state.moved.fetch_add(more, std::memory_order_relaxed) + more, occasion);
}

void End() { LookNow(state.moved.load(std::memory_order_relaxed), Occasion::kEnd); }

}  // namespace tare::recorder::snapshot
