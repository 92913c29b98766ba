#include "snapshot.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "known_stacks.hpp"
#include "system.hpp"

// Of a layer that stands in between, if one does. dlsym would allocate where there is none.
extern "C" void tare_layer_held(void (*each)(void*, std::size_t, void*), void* data)
    __attribute__((weak));

namespace tare::recorder::snapshot {
namespace {

constexpr const char* kFolderVariable = "TARE_RECORDER_SNAPSHOTS";
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPathBytes = 1024;
constexpr std::uint32_t kMostKept = 64;
constexpr std::uint64_t kFirstInterval = 1 << 20;
constexpr std::uint64_t kLeastGrant = 128 << 10, kMostGrant = 8 << 20;
constexpr std::uint64_t kGrantShare = 32;  // of resident memory
// A new peak is 2% over the last one, or 1% as a rise of what lives ends; or 10% once snapshots
// took a tenth of the time and some nanoseconds.
constexpr std::uint64_t kUsualStep = 1020, kRiseStep = 1010, kCoarseStep = 1100, kWhole = 1000;
constexpr std::uint64_t kLargestWalked = 64 << 20;  // to know its resident bytes exactly
constexpr std::uint64_t kMostShareOfTime = 10, kGrace = 200'000'000;

constexpr std::size_t kMostOwn = 4096, kMostThreads = 4096, kMostMappings = 8192, kMostStart = 256;

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
  std::uint32_t kept;
  std::uint32_t kept_serials[kMostKept];
};
constinit State state{};

// What a child of a fork has in common with its parent.
constinit Range own[kMostOwn] = {};
constinit std::uint64_t threads[kMostThreads] = {};
constinit Range start[kMostStart] = {};
constinit std::size_t starts = 0;
constinit Mapping mappings[kMostMappings] = {};
constinit std::atomic<std::size_t> owns{0}, threads_seen{0}, mappings_seen{0};
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

class Descriptor {
 public:
  Descriptor(const char* path, int flags) : fd_(open(path, flags | O_CLOEXEC, 0600)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int Get() const { return fd_; }

 private:
  const int fd_;
};

// Parts of a file, collected into few writes. One snapshot is taken at a time.
constinit char room[(32 << 10) + sizeof(Part)] = {};
class Writer {
 public:
  explicit Writer(const char* path) : file_(path, O_WRONLY | O_CREAT | O_TRUNC) {}
  void Put(Kind kind, const void* bytes, std::size_t count) {
    const char* from = static_cast<const char*>(bytes);
    if (kind != kind_ || used_ + count > kRoom) Flush();
    kind_ = kind;
    for (; count > kRoom; from += kRoom, count -= kRoom) {
      Append(from, kRoom);
      Flush();
    }
    Append(from, count);
  }
  void Finish() {
    Put(kEnd, nullptr, 0);
    Write(kEnd);
  }
  bool Failed() const { return failed_; }

 private:
  static constexpr std::size_t kRoom = sizeof room - sizeof(Part);
  void Append(const char* bytes, std::size_t count) {
    if (count > 0) memcpy(room + sizeof(Part) + used_, bytes, count);
    used_ += count;
  }
  void Flush() {
    if (used_ > 0) Write(kind_);
  }
  void Write(Kind kind) {
    const Part part{kind, static_cast<std::uint32_t>(used_)};
    memcpy(room, &part, sizeof part);
    const std::size_t all = sizeof part + used_;
    if (write(file_.Get(), room, all) != static_cast<ssize_t>(all)) failed_ = true;
    used_ = 0;
  }

  Descriptor file_;
  Kind kind_ = kEnd;
  std::size_t used_ = 0;
  bool failed_ = false;
};

void Copy(Writer& writer, Kind kind, const char* path) {
  const Descriptor file(path, O_RDONLY);
  char text[4096];
  for (ssize_t count; (count = read(file.Get(), text, sizeof text)) > 0;)
    writer.Put(kind, text, static_cast<std::size_t>(count));
}

// linux/fs.h has it from Linux 6.7 on.
struct ScanRegion {
  std::uint64_t start, end, categories;
};
struct ScanRequest {
  std::uint64_t size, flags, start, end, walk_end, regions, regions_count, most_pages, inverted,
      all_of, any_of, returned;
};
constexpr unsigned long kScan = _IOWR('f', 16, ScanRequest);
constexpr std::uint64_t kIsPresent = 1 << 3, kIsSwapped = 1 << 4, kIsZeros = 1 << 5,
                        kIsHuge = 1 << 6;
constexpr std::uint64_t kAddressEnd = (std::uint64_t{1} << 47) - kPage;

bool ScanPages(Writer& writer, int pagemap) {
  static constinit ScanRegion regions[512];
  for (std::uint64_t at = 0; at < kAddressEnd;) {
    ScanRequest request{};
    request.size = sizeof request;
    request.start = at;
    request.end = kAddressEnd;
    request.regions = reinterpret_cast<std::uint64_t>(regions);
    request.regions_count = std::size(regions);
    request.any_of = kIsPresent | kIsSwapped;
    request.returned = kIsPresent | kIsSwapped | kIsZeros | kIsHuge;
    const int found = ioctl(pagemap, kScan, &request);
    if (found < 0 || request.walk_end <= at) return false;
    for (int i = 0; i < found; ++i) {
      const ScanRegion& region = regions[i];
      std::uint64_t flags = 0;
      if (region.categories & kIsHuge) flags |= kHuge;
      if (region.categories & kIsZeros) flags |= kZeros;
      if (region.categories & kIsSwapped) flags |= kSwapped;
      const Run run{region.start, (region.end - region.start) | flags};
      writer.Put(kResident, &run, sizeof run);
    }
    at = request.walk_end;
  }
  return true;
}

// Calls `each` with the start of each line of /proc/self/maps, up to 4095 characters of it.
template <typename Each>
void ForEachMapping(Each each) {
  const Descriptor maps("/proc/self/maps", O_RDONLY);
  char text[4096 + 1];
  std::size_t used = 0;
  for (ssize_t count; (count = read(maps.Get(), text + used, sizeof text - 1 - used)) > 0;) {
    used += static_cast<std::size_t>(count);
    text[used] = '\0';
    char* line = text;
    for (char* end; (end = strchr(line, '\n')) != nullptr; line = end + 1) {
      *end = '\0';
      each(static_cast<const char*>(line));
    }
    used -= static_cast<std::size_t>(line - text);
    memmove(text, line, used);
    if (used == sizeof text - 1) used = 0;  // the rest of a line that is too long
  }
}

struct Bounds {
  std::uint64_t start = 0, end = 0;
  const char* rest = nullptr;
};

// Of a line of /proc/self/maps; equal where it is none.
Bounds ReadBounds(const char* line) {
  char* at = nullptr;
  Bounds bounds;
  const std::uint64_t first = strtoull(line, &at, 16);
  const std::uint64_t end = *at == '-' ? strtoull(at + 1, &at, 16) : 0;
  if (end > first && end <= kAddressEnd) bounds = {first, end, at};
  return bounds;
}

// Joins entries of pagemap to runs.
class PageRuns {
 public:
  explicit PageRuns(Writer& writer) : writer_(writer) {}
  void Add(std::uint64_t address, std::uint64_t entry) {
    constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwap = std::uint64_t{1} << 62,
                            kFile = std::uint64_t{1} << 61, kExclusive = std::uint64_t{1} << 56;
    if ((entry & (kPresent | kSwap)) == 0) return;
    std::uint64_t flags = 0;
    if ((entry & kSwap) != 0) {
      flags = kSwapped;
    } else if ((entry & (kFile | kExclusive)) == 0) {
      flags = kZeros;  // or shared with a parent or child since a fork
    }
    if (address != start_ + bytes_ || flags != flags_) {
      Finish();
      start_ = address;
      flags_ = flags;
    }
    bytes_ += kPage;
  }
  void Finish() {
    const Run run{start_, bytes_ | flags_};
    if (bytes_ > 0) writer_.Put(kResident, &run, sizeof run);
    bytes_ = 0;
  }

 private:
  Writer& writer_;
  std::uint64_t start_ = 0, bytes_ = 0, flags_ = 0;
};

// For kernels without the scan. Vast reservations are left out: to read their entries takes too
// long, and what is resident there shows as missing.
class PageReader {
 public:
  PageReader(Writer& writer, int pagemap) : runs_(writer), pagemap_(pagemap) {}
  void Mapping(const char* line) {
    constexpr std::uint64_t kVast = std::uint64_t{64} << 30, kVastWithoutAccess = 1 << 30;
    const Bounds bounds = ReadBounds(line);
    const bool accessible = bounds.rest != nullptr && strncmp(bounds.rest, " ---", 4) != 0;
    if (bounds.end - bounds.start <= (accessible ? kVast : kVastWithoutAccess))
      Pages(bounds.start, bounds.end);
  }
  void Finish() { runs_.Finish(); }

 private:
  void Pages(std::uint64_t at, std::uint64_t end) {
    std::uint64_t entries[1024];
    while (at < end) {
      const std::size_t wanted = std::min<std::size_t>((end - at) / kPage, std::size(entries));
      const ssize_t got = pread(pagemap_, entries, wanted * sizeof entries[0],
                                static_cast<off_t>(at / kPage * sizeof entries[0]));
      if (got <= 0) return;
      const std::size_t count = static_cast<std::size_t>(got) / sizeof entries[0];
      for (std::size_t i = 0; i < count; ++i) runs_.Add(at + i * kPage, entries[i]);
      at += count * kPage;
    }
  }

  PageRuns runs_;
  const int pagemap_;
};

void ReadPages(Writer& writer, int pagemap) {
  PageReader pages(writer, pagemap);
  ForEachMapping([&](const char* line) { pages.Mapping(line); });
  pages.Finish();
}

void PutResident(Writer& writer) {
  const Descriptor pagemap("/proc/self/pagemap", O_RDONLY);
  if (pagemap.Get() >= 0 && !ScanPages(writer, pagemap.Get())) ReadPages(writer, pagemap.Get());
}

// The first number after `before` in a file; 0 without one.
std::uint64_t NumberIn(const char* path, const char* before) {
  const Descriptor file(path, O_RDONLY);
  char text[512];
  const ssize_t count = read(file.Get(), text, sizeof text - 1);
  if (count <= 0) return 0;
  text[count] = '\0';
  const char* const found = strstr(text, before);
  return found != nullptr ? strtoull(found + strlen(before), nullptr, 10) : 0;
}

// Quick, and off by 32 pages or more for each processor: the kernel counts apart there.
std::uint64_t ResidentBytes() { return NumberIn("/proc/self/statm", " ") * kPage; }

// By a walk over all pages.
std::uint64_t ExactResidentBytes() { return NumberIn("/proc/self/smaps_rollup", "Rss:") << 10; }

void PutHeld(void* object, std::size_t bytes, void* writer) {
  const Range range{reinterpret_cast<std::uint64_t>(object), bytes};
  static_cast<Writer*>(writer)->Put(kHeld, &range, sizeof range);
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
  writer.Put(kOwn, own, std::min(owns.load(), kMostOwn) * sizeof own[0]);
  const std::size_t seen = mappings_seen.load();
  if (seen >= kMostMappings) {  // a ring: the older part first
    const std::size_t at = seen % kMostMappings;
    writer.Put(kMapped, mappings + at, (kMostMappings - at) * sizeof mappings[0]);
  }
  writer.Put(kMapped, mappings, (seen % kMostMappings) * sizeof mappings[0]);
  writer.Put(kThreads, threads, std::min(threads_seen.load(), kMostThreads) * sizeof threads[0]);
  writer.Put(kStart, start, starts * sizeof start[0]);
  writer.Put(kFolder, state.recording, strlen(state.recording));
  if (tare_layer_held != nullptr) tare_layer_held(PutHeld, &writer);
  moment.end = SinceOrigin();
  writer.Put(kMoment, &moment, sizeof moment);
  writer.Finish();
  state.spent += moment.end - moment.begin;
  return !writer.Failed();
}

// Every second one goes, and from here on half as many are taken.
void ThinOut() {
  for (std::uint32_t i = 0; i < kMostKept; ++i) {
    if (i % 2 == 1) {
      unlink(Path(state.kept_serials[i]).Text());
    } else {
      state.kept_serials[i / 2] = state.kept_serials[i];
    }
  }
  state.kept = kMostKept / 2;
  state.interval *= 2;
}

void NoteStart() {
  ForEachMapping([](const char* line) {
    const Bounds bounds = ReadBounds(line);
    // Its inode is 0, and no name follows.
    if (bounds.rest == nullptr || strpbrk(bounds.rest, "/[") != nullptr || starts == kMostStart)
      return;
    start[starts++] = {bounds.start, bounds.end - bounds.start};
  });
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
  if (is_moment && state.kept == kMostKept) ThinOut();
  if (is_peak) {
    state.highest = resident;
    TakePeak(is_moment);
  } else if (is_moment && !Take(Path(state.serial).Text())) {
    unlink(Path(state.serial).Text());
  }
  if (is_moment) state.kept_serials[state.kept++] = state.serial++;
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
  if (starts == 0) NoteStart();
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

void NoteThread() {
  const std::size_t place = threads_seen.fetch_add(1, std::memory_order_relaxed) % kMostThreads;
  threads[place] = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
}

namespace {

extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char etext[] __attribute__((visibility("hidden")));

void NoteMapping(const void* pages, std::size_t bytes, bool has_file, const void* call) {
  if (pages == MAP_FAILED) return;
  const auto address = reinterpret_cast<std::uint64_t>(pages);
  if (call >= __ehdr_start && call < etext) {  // the recorder's
    if (has_file) return;
    const std::size_t place = owns.fetch_add(1, std::memory_order_relaxed);
    if (place < kMostOwn) own[place] = {address, bytes};
    return;
  }
  const std::size_t place = mappings_seen.fetch_add(1, std::memory_order_relaxed) % kMostMappings;
  mappings[place] = {address, bytes, reinterpret_cast<std::uint64_t>(call)};
}

}  // namespace
}  // namespace tare::recorder::snapshot

// To know who made a mapping, and when a stack goes.

#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace tare::recorder::snapshot;
using tare::recorder::NoteGone;

namespace {

using MapFunction = void*(void*, std::size_t, int, int, int, off_t);
using UnmapFunction = int(void*, std::size_t);
using ProtectFunction = int(void*, std::size_t, int);
using RemapFunction = void*(void*, std::size_t, std::size_t, int, void*);

template <typename Function>
Function* NextOf(const char* symbol, Function*& known) {
  if (known == nullptr) known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
  return known;
}

constinit MapFunction* next_mmap = nullptr;
constinit RemapFunction* next_mremap = nullptr;
constinit UnmapFunction* next_munmap = nullptr;
constinit ProtectFunction* next_mprotect = nullptr;

}  // namespace

EXPORT void* mmap(void* at, std::size_t bytes, int access, int flags, int fd,
                  off_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) NoteGone(at, bytes);
  void* const pages = NextOf("mmap", next_mmap)(at, bytes, access, flags, fd, offset);
  NoteMapping(pages, bytes, (flags & MAP_ANONYMOUS) == 0, __builtin_return_address(0));
  return pages;
}
EXPORT void* mmap64(void* at, std::size_t bytes, int access, int flags, int fd,
                    off64_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) NoteGone(at, bytes);
  void* const pages = NextOf("mmap", next_mmap)(at, bytes, access, flags, fd, offset);
  NoteMapping(pages, bytes, (flags & MAP_ANONYMOUS) == 0, __builtin_return_address(0));
  return pages;
}
EXPORT void* mremap(void* from, std::size_t old_bytes, std::size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const to = flags & MREMAP_FIXED ? va_arg(more, void*) : nullptr;
  va_end(more);
  NoteGone(from, old_bytes);
  if (to != nullptr) NoteGone(to, bytes);
  void* const pages = NextOf("mremap", next_mremap)(from, old_bytes, bytes, flags, to);
  NoteMapping(pages, bytes, false, __builtin_return_address(0));
  return pages;
}
EXPORT int munmap(void* pages, std::size_t bytes) noexcept {
  NoteGone(pages, bytes);
  return NextOf("munmap", next_munmap)(pages, bytes);
}
EXPORT int mprotect(void* pages, std::size_t bytes, int access) noexcept {
  if ((access & PROT_READ) == 0) NoteGone(pages, bytes);
  return NextOf("mprotect", next_mprotect)(pages, bytes, access);
}
