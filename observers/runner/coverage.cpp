// tare-coverage: preloaded behind the probe, it says when a process ends how much of its memory
// came from elsewhere than the manager: from files that map memory for themselves, as an allocator
// does that a program brings along, and from static data and the stack.
//
// It stands in front of the calls that map memory, of which it notes those of other files than what
// is preloaded and the C library. How much is resident is looked up when a process ends, and now
// and then before something is given back.
//
// One line goes to the file named by TARE_PROOF, fields separated by tabs, sizes in bytes:
//
//   version "memory" pid image peak others static stack [file mapped]...
//
// The peak is the largest of all private memory that has no file, without static data and the
// stack; others is what of it no file is known to have mapped, so the manager's, in the sample in
// which the files had most, and their sizes are of that sample. A file is named as the dynamic
// linker has it, "" is code that lies in none, "*" are all files beyond the first 31.

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "foreign.hpp"
#include "line.hpp"
#include "preloaded.hpp"
#include "system.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/loaded_objects.hpp"
#include "tare/platform/maps.hpp"
#include "tare/platform/memory.hpp"

namespace {

using std::size_t;
using std::uintptr_t;
using tare::KeepErrno;
using tare::platform::PageUp;
using tare::runner::Files;
using tare::runner::kFileBytes;
using tare::runner::kMostFiles;
using tare::runner::kPathBytes;
using tare::runner::Line;
using tare::runner::Range;

constexpr unsigned long kVersion = 2;

using Mmap = void*(void*, size_t, int, int, int, long);
using Mremap = void*(void*, size_t, size_t, int, ...);
using Munmap = int(void*, size_t);
using Madvise = int(void*, size_t, int);
using Sbrk = void*(std::intptr_t);
using Exit = void(int);

// Found when this object is initialised; until then, and where nothing else stands in front of the
// kernel, its own calls do.
constinit Mmap* next_mmap = nullptr;
constinit Mremap* next_mremap = nullptr;
constinit Munmap* next_munmap = nullptr;
constinit Madvise* next_madvise = nullptr;
constinit Sbrk* next_sbrk = nullptr;

struct Sample {
  std::uint64_t others, statics, stack, of_files;
  std::uint64_t by_file[kMostFiles];
};

struct State {
  tare::runner::PatientLock lock;
  bool is_lost;  // a thread did not come back with the lock
  Files files;
  tare::runner::Ranges ranges;
  std::uint64_t mapped, mapped_when_sampled;
  std::uint64_t released, next_release;
  Sample largest;
  std::uint64_t peak;
};
constinit State state{};

constinit char proof_path[kPathBytes] = {};
constinit char preloaded[4 * kPathBytes] = {};  // the list, before the program can change it
constinit pid_t process = 0;

// ---- who calls ----

// Also before this object is initialised, when there is one thread.
const char* Preloaded() {
  if (*preloaded == '\0')
    if (const char* const list = getenv("LD_PRELOAD"); list != nullptr)
      strncpy(preloaded, list, sizeof preloaded - 1);
  return preloaded;
}

// Whether the file is preloaded, so the manager's or Tare's, or the C library.
bool IsOfManager(const tare::platform::LoadedObject& object) {
  const auto in_libc = reinterpret_cast<uintptr_t>(&sched_yield);
  if (in_libc - object.start < object.end - object.start) return true;
  return tare::runner::IsPreloaded(Preloaded(), object.name);
}

constexpr std::uint32_t kManager = ~std::uint32_t{0};

std::uint32_t FileOf(const void* call) {
  tare::platform::LoadedObject object{};
  const bool is_found = tare::platform::FindLoadedObject(reinterpret_cast<uintptr_t>(call), object);
  if (is_found && IsOfManager(object)) return kManager;
  // What is empty for the dynamic linker is the program.
  return is_found ? state.files.NumberOf(object.start, *object.name == '\0' ? "." : object.name)
                  : state.files.NumberOf(0, "");
}

// ---- how much is resident ----

struct Counting {
  tare::runner::Resident resident;
  Sample sample{};

  // A mapping, in which the ranges of files are told from the rest.
  void Add(uintptr_t start, uintptr_t end) {
    const auto& ranges = state.ranges;
    for (size_t place = ranges.Below(start); place > 0 && ranges[place - 1].start < end; --place) {
      const Range& range = ranges[place - 1];
      const uintptr_t from = range.start > start ? range.start : start;
      const uintptr_t to = range.end < end ? range.end : end;
      if (from > start) sample.others += resident(start, from);
      const std::uint64_t bytes = resident(from, to);
      sample.by_file[range.file] += bytes;
      sample.of_files += bytes;
      start = to;
    }
    if (start < end) sample.others += resident(start, end);
  }
};

// Where the static data ends with which the mapping begins: the kernel joins what is mapped behind.
uintptr_t EndOfData(const tare::platform::MapsRow& row) {
  tare::platform::LoadedObject object{};
  if (!tare::platform::FindLoadedObject(row.start - 1, object)) return row.start;
  const uintptr_t end = PageUp(object.end);
  return end < row.start ? row.start : end < row.end ? end : row.end;
}

// With the lock.
Sample TakeSample() {
  Counting counting;
  tare::platform::MapsReader<16> maps;
  uintptr_t end_of_data = 0;
  for (tare::platform::MapsRow row; maps.Next(row);) {
    const bool follows_data = row.start == end_of_data;
    end_of_data = row.has_file && row.writable ? row.end : 0;
    if (row.has_file || !row.is_private || !row.readable) continue;
    const char* const name = maps.Name();
    if (strcmp(name, "[stack]") == 0)
      counting.sample.stack += counting.resident(row.start, row.end);
    else if (*name == '\0' || strcmp(name, "[heap]") == 0 || strncmp(name, "[anon:", 6) == 0) {
      const uintptr_t data = follows_data ? EndOfData(row) : row.start;
      counting.sample.statics += counting.resident(row.start, data);
      counting.Add(data, row.end);
    }
  }
  const Sample& sample = counting.sample;
  if (sample.of_files >= state.largest.of_files) state.largest = sample;
  const std::uint64_t whole = sample.of_files + sample.others;
  if (whole > state.peak) state.peak = whole;
  state.mapped_when_sampled = state.mapped;
  return sample;
}

// Before something of a file's is given back. So many samples that they cost next to nothing: when
// a quarter more is mapped than at the last one, and at twice as many releases.
void SampleBeforeRelease() {
  ++state.released;
  const bool has_grown = state.mapped / 5 * 4 > state.mapped_when_sampled;
  if (!has_grown && state.released < state.next_release) return;
  state.next_release = 2 * state.released;
  TakeSample();
}

class Locked {
 public:
  Locked() : is_held_(!state.is_lost && state.lock.Lock()) {
    if (!is_held_) state.is_lost = true;
  }
  ~Locked() {
    if (is_held_) state.lock.Unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  explicit operator bool() const { return is_held_; }

 private:
  const bool is_held_;
};

// A child of vfork runs on its parent's memory.
bool IsOurs() { return process == 0 || getpid() == process; }

// ---- what is mapped, and given back ----

uintptr_t AddressOf(const void* pages) { return reinterpret_cast<uintptr_t>(pages); }

void NoteMapped(uintptr_t start, size_t bytes, const void* call) {
  const KeepErrno errno_of_program;
  if (!IsOurs()) return;
  if (const Locked locked; locked) {
    const uintptr_t end = PageUp(start + bytes);
    state.ranges.Remove(start, end);
    if (const std::uint32_t file = FileOf(call); file != kManager) {
      state.ranges.Add(start, end, file);
      state.mapped += end - start;
    }
  }
}

void NoteReleased(const void* pages, size_t bytes, bool is_unmapped) {
  const KeepErrno errno_of_program;
  const uintptr_t start = AddressOf(pages), end = PageUp(start + bytes);
  if (!IsOurs() || end <= start) return;
  if (const Locked locked; locked) {
    const size_t place = state.ranges.Below(start);
    if (place == 0 || state.ranges[place - 1].start >= end) return;
    SampleBeforeRelease();
    if (is_unmapped && state.ranges.Remove(start, end))
      state.mapped -= end - start < state.mapped ? end - start : state.mapped;
  }
}

void* Map(void* at, size_t bytes, int access, int flags, int fd, long offset, const void* call) {
  if ((flags & MAP_FIXED) != 0) NoteReleased(at, bytes, true);
  void* const pages =
      next_mmap != nullptr
          ? next_mmap(at, bytes, access, flags, fd, offset)
          : reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, access, flags, fd, offset));
  if (pages != MAP_FAILED && (flags & MAP_ANONYMOUS) != 0 && (flags & MAP_PRIVATE) != 0)
    NoteMapped(AddressOf(pages), bytes, call);
  return pages;
}

// ---- the end of a process ----

// "VmHWM:     1234 kB" of the file's text, in bytes.
std::uint64_t SizeIn(const char* status, const char* name) {
  const char* at = strstr(status, name);
  if (at == nullptr) return 0;
  std::uint64_t kilobytes = 0;
  for (at += strlen(name); *at == ' ' || *at == '\t'; ++at) {
  }
  for (; *at >= '0' && *at <= '9'; ++at)
    kilobytes = kilobytes * 10 + static_cast<std::uint64_t>(*at - '0');
  return kilobytes * 1024;
}

// The kernel's own peak, which also knows what was freed since; less what is neither memory that
// was mapped nor a heap now, as the pages of files that were written to.
std::uint64_t PeakOfKernel(const Sample& now) {
  static constinit char status[8192] = {};
  const tare::platform::ProcFile file("/proc/self/status");
  const long count = file.IsOpen() ? file.Read(status, sizeof status - 1) : 0;
  if (count <= 0) return 0;
  const std::uint64_t peak = SizeIn(status, "\nVmHWM:");
  const std::uint64_t anonymous = SizeIn(status, "\nRssAnon:"), known = now.others + now.of_files;
  const std::uint64_t elsewhere = SizeIn(status, "\nRssFile:") + SizeIn(status, "\nRssShmem:") +
                                  (anonymous > known ? anonymous - known : 0);
  return peak > elsewhere ? peak - elsewhere : 0;
}

void ReportMemory() {
  if (proof_path[0] == '\0' || process == 0 || !IsOurs()) return;
  const Locked locked;
  if (!locked || state.ranges.IsFull()) return;
  const std::uint64_t kernels = PeakOfKernel(TakeSample());
  const Sample& sample = state.largest;
  static constinit Line line;  // the stack may be a small one
  line << kVersion << '\t' << "memory" << '\t' << static_cast<unsigned long>(process) << '\t'
       << tare::runner::Image() << '\t' << (kernels > state.peak ? kernels : state.peak) << '\t'
       << sample.others << '\t' << sample.statics << '\t' << sample.stack;
  for (std::uint32_t file = 0; file < kMostFiles; ++file) {
    if (sample.by_file[file] == 0) continue;
    const char* const name = state.files.Name(file);
    line << '\t';
    if (file == Files::kLost)
      line << '*';
    else if (strcmp(name, ".") == 0)
      tare::runner::PutExecutable(line);
    else
      line << name;
    line << '\t' << sample.by_file[file];
  }
  line << '\n';
  line.AppendTo(proof_path);
  process = 0;
}

// The lock may be that of another thread, which the child does not have.
void BecomeChild() {
  process = getpid();
  if (!state.lock.IsHeld()) return;
  state.is_lost = true;
  state.lock.Unlock();
}

template <typename Function>
void Find(const char* symbol, Function*& found) {
  found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, symbol));
}

__attribute__((constructor)) void Begin() {
  const char* const path = getenv("TARE_PROOF");
  if (path == nullptr || strlen(path) >= sizeof proof_path) return;
  strcpy(proof_path, path);
  Preloaded();
  Find("mmap", next_mmap);
  Find("mremap", next_mremap);
  Find("munmap", next_munmap);
  Find("madvise", next_madvise);
  Find("sbrk", next_sbrk);
  process = getpid();
  pthread_atfork(nullptr, nullptr, BecomeChild);
}

__attribute__((destructor)) void End() { ReportMemory(); }

[[noreturn]] void EndAtOnce(int code) {
  ReportMemory();
  for (;;) syscall(SYS_exit_group, code);
}

}  // namespace

EXPORT void* mmap(void* at, size_t bytes, int access, int flags, int fd, long offset) noexcept {
  return Map(at, bytes, access, flags, fd, offset, __builtin_return_address(0));
}
EXPORT void* mmap64(void* at, size_t bytes, int access, int flags, int fd, long offset) noexcept {
  return Map(at, bytes, access, flags, fd, offset, __builtin_return_address(0));
}

EXPORT int munmap(void* pages, size_t bytes) noexcept {
  NoteReleased(pages, bytes, true);
  return next_munmap != nullptr ? next_munmap(pages, bytes)
                                : static_cast<int>(syscall(SYS_munmap, pages, bytes));
}

EXPORT void* mremap(void* from, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  va_list more;
  va_start(more, flags);
  void* const to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void*) : nullptr;
  va_end(more);
  NoteReleased(from, old_bytes, true);
  if (to != nullptr) NoteReleased(to, bytes, true);
  void* const pages =
      next_mremap != nullptr
          ? next_mremap(from, old_bytes, bytes, flags, to)
          : reinterpret_cast<void*>(syscall(SYS_mremap, from, old_bytes, bytes, flags, to));
  if (pages != MAP_FAILED)
    NoteMapped(AddressOf(pages), bytes, __builtin_return_address(0));
  else
    NoteMapped(AddressOf(from), old_bytes, __builtin_return_address(0));
  return pages;
}

EXPORT int madvise(void* pages, size_t bytes, int advice) noexcept {
  if (advice == MADV_DONTNEED || advice == MADV_FREE) NoteReleased(pages, bytes, false);
  return next_madvise != nullptr ? next_madvise(pages, bytes, advice)
                                 : static_cast<int>(syscall(SYS_madvise, pages, bytes, advice));
}

// A manager that is initialised before this object finds the function itself.
EXPORT void* sbrk(std::intptr_t more) noexcept {
  if (next_sbrk == nullptr) Find("sbrk", next_sbrk);
  void* const before = next_sbrk(more);
  if (more > 0 && before != reinterpret_cast<void*>(-1))
    NoteMapped(AddressOf(before), static_cast<size_t>(more), __builtin_return_address(0));
  return before;
}

// Without the destructors.
EXPORT void _exit(int code) noexcept { EndAtOnce(code); }
EXPORT void _Exit(int code) noexcept { EndAtOnce(code); }
