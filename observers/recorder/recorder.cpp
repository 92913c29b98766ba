// libtare-recorder.so: preloaded in front of an allocator, it writes down every birth and death of
// an object; see format.hpp for what it leaves.
//
// It stands for the whole malloc family, and for C++'s operators, and passes each call on to the
// next object that defines the function. malloc_usable_size is left to the allocator.

#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "event.hpp"
#include "inner.hpp"
#include "next.hpp"
#include "process.hpp"
#include "snapshot.hpp"
#include "switch.hpp"
#include "thread.hpp"

namespace tare::recorder {
namespace {

constexpr const char* kFolderVariable = "TARE_RECORDER_FOLDER";
constexpr const char* kStacksVariable = "TARE_RECORDER_STACKS";
constexpr const char* kSampleVariable = "TARE_RECORDER_SAMPLE";
constexpr const char* kSwitchVariable = "TARE_RECORDER_SWITCH";
constexpr const char* kSignalVariable = "TARE_RECORDER_SIGNAL";
constexpr std::size_t kLargestSample = std::size_t{1} << 40;

constinit std::uint64_t early_births = 0;
// A program may write over its environment, to change its title.
constinit char folder[kPathBytes] = {};

void EndOfThread(void* record) {
  RecordRest();
  EndThread(record);
}

// As tare::Resolve, but a layer of Tare's may stand in between, which leaves malloc_usable_size to
// the allocator.
void ResolveBehindLayers(Inner& inner) {
  RequireNext("malloc", inner.malloc);
  RequireNext("calloc", inner.calloc);
  RequireNext("realloc", inner.realloc);
  RequireNext("free", inner.free);
  if (strstr(FileOf(inner.free), "/libtare-") != nullptr)
    RequireNext("malloc_usable_size", inner.usable_size);
  else
    Resolve(inner);
}

bool SizeIsInHeader() {
  void* const object = setting.inner.malloc(1);
  if (object == nullptr) return false;
  const bool in_header = HeaderTellsSize(setting.inner, object);
  setting.inner.free(object);
  return in_header;
}

// The dynamic linker allocates before the C library knows its environment.
__attribute__((noinline)) void Begin() {
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

__attribute__((noinline)) bool IsOffNow() {
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

__attribute__((constructor)) void Constructor() { BeginOnce(); }
__attribute__((destructor)) void Destructor() {
  RecordRest();
  NoteEnd();
}

std::uint64_t ObjectsUnloaded() {
  std::uint64_t unloaded = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* information, std::size_t, void* result) {
        *static_cast<std::uint64_t*>(result) = information->dlpi_subs;
        return 1;
      },
      &unloaded);
  return unloaded;
}

// The operator new that this thread is in, for the calls that it makes itself. Whoever records the
// birth takes it away.
constinit thread_local TARE_INITIAL_EXEC const Operator* inside = nullptr;

inline Operator Outermost(Kind kind, const Caller& caller) {
  const Operator* const outer = std::exchange(inside, nullptr);
  return outer != nullptr ? *outer : Operator{caller, kind};
}

template <typename Allocate>
inline void* Birth(Kind kind, std::size_t bytes, std::size_t alignment, const Caller& caller,
                   Allocate allocate) {
  if (Passes(bytes) || IsOff()) return allocate();
  const Operator outermost = Outermost(kind, caller);
  void* const object = allocate();
  if (object != nullptr) [[likely]]
    RecordBirth(outermost.kind, object, bytes, alignment, outermost.caller);
  return object;
}

// Where no C++ library was there at the start, nothing can throw.
template <bool kThrows>
void* NewOverMalloc(std::size_t bytes, std::size_t alignment) {
  void* const object =
      alignment == 0 ? setting.inner.malloc(bytes)
                     : Next<"memalign", void*(std::size_t, std::size_t)>::Call(alignment, bytes);
  if (object != nullptr || !kThrows) return object;
  Message message;
  message << "tare-recorder: memory is out, and there is no operator new that could throw";
  Abort(message);
}

// The operator new behind this one. Where it is the C++ library's, which calls malloc and no more,
// a call that is not recorded goes to malloc itself.
template <SymbolName kSymbol, typename... More>
struct NextNew {
  using Function = void*(std::size_t, More...);
  static constinit inline Function* function = nullptr;
  static constinit inline bool is_missing = false;
  static constinit inline bool is_allocators_own = false;  // else it calls malloc, which counts
  static constinit inline bool is_malloc = false;

  static void Find() {
    if (function != nullptr || is_missing) return;
    is_missing = !FindNext(kSymbol.text, function);
    is_allocators_own =
        is_missing || ObjectOf(function).dli_fbase == ObjectOf(setting.inner.malloc).dli_fbase;
    is_malloc = !is_allocators_own && strstr(FileOf(function), "/libstdc++.so") != nullptr;
  }
};

template <SymbolName kSymbol, bool kThrows, typename... More>
inline void* New(const Caller& caller, std::size_t bytes, std::size_t alignment, More... more) {
  using Behind = NextNew<kSymbol, More...>;
  if ((WouldPass(bytes) || PowerNow() == Power::kOff) && Behind::function != nullptr) {
    if (Behind::is_allocators_own) Passes(bytes);
    return Behind::function(bytes, more...);
  }
  BeginOnce();
  Behind::Find();
  const Operator outermost = Outermost(alignment == 0 ? kNew : kAlignedNew, caller);
  // A call of malloc counts, and passes, by itself.
  const bool passes = Behind::is_allocators_own ? Passes(bytes) : sampled != nullptr;
  inside = &outermost;
  void* const object = Behind::is_missing ? NewOverMalloc<kThrows>(bytes, alignment)
                                          : Behind::function(bytes, more...);
  const bool was_recorded = std::exchange(inside, nullptr) == nullptr;
  if (object != nullptr && !was_recorded && !passes)
    RecordBirth(outermost.kind, object, bytes, alignment, outermost.caller);
  return object;
}

inline bool DeathPasses(const void* object) {
  return sampled != nullptr ? !sampled->MayHold(object) : IsOff();
}

void* ResizeSampled(void* object, std::size_t bytes, const Caller& caller) {
  const bool passes = Passes(bytes);
  const bool is_off = PowerNow() == Power::kOff;
  if ((passes || is_off) && !sampled->MayHold(object)) return setting.inner.realloc(object, bytes);
  const std::uint64_t begin = Ticks();
  const bool was_sampled = sampled->Remove(object);
  void* const moved = setting.inner.realloc(object, bytes);
  if (moved == nullptr && bytes != 0) {
    if (was_sampled) sampled->Insert(object);
    return nullptr;
  }
  if (was_sampled) RecordDeathAt(begin, object, 0, caller);
  if (moved != nullptr && !passes && !is_off) RecordBirth(kRealloc, moved, bytes, 0, caller);
  return moved;
}

inline void* Resize(void* object, std::size_t bytes, const Caller& caller) {
  if (object == nullptr)
    return Birth(kRealloc, bytes, 0, caller, [&] { return setting.inner.realloc(nullptr, bytes); });
  BeginOnce();
  if (sampled != nullptr) return ResizeSampled(object, bytes, caller);
  if (IsOff()) return setting.inner.realloc(object, bytes);
  if (snapshot::on) LookBefore(object);
  const std::uint64_t begin = Ticks();
  void* const moved = setting.inner.realloc(object, bytes);
  if (moved == nullptr && bytes != 0) return nullptr;
  RecordDeathAt(begin, object, moved != nullptr ? kMoved : 0, caller);
  if (moved != nullptr) RecordBirth(kRealloc, moved, bytes, 0, caller);
  return moved;
}

}  // namespace
}  // namespace tare::recorder

namespace tare::recorder {

void NoteGone(const void* pages, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(pages);
  if (process == nullptr || process->stacks == nullptr ||
      !process->stacks->known_stacks.Overlap(start, start + bytes))
    return;
  process->stacks->known_stacks.Forget(process->stacks->generation);
}

}  // namespace tare::recorder

#define EXPORT extern "C" __attribute__((visibility("default")))
using namespace tare::recorder;
using std::size_t;
using tare::Next;
using tare::SymbolName;

namespace {

// Of the function that called the one in which this is inlined, which has a frame of its own.
__attribute__((always_inline)) inline Caller CallerHere() {
  const auto* const frame = static_cast<const std::uintptr_t*>(__builtin_frame_address(0));
  return {frame[1], reinterpret_cast<std::uintptr_t>(frame + 2), frame[0]};
}

}  // namespace

// What most calls do comes first, in functions that need no frame. The rest is reached by a jump,
// so the caller is still that of the frame.

namespace {

__attribute__((noinline)) void* RecordedMalloc(size_t n) {
  return Birth(kMalloc, n, 0, CallerHere(), [n] { return setting.inner.malloc(n); });
}

__attribute__((noinline)) void RecordedFree(void* p) {
  if (p == nullptr) return;
  BeginOnce();
  RecordDeath(p, CallerHere());
  setting.inner.free(p);
}

inline void Free(void* p) {
  if (DeathPasses(p)) return setting.inner.free(p);
  return RecordedFree(p);
}

}  // namespace

EXPORT void* malloc(size_t n) {
  if (Passes(n) || IsOff()) return setting.inner.malloc(n);
  return RecordedMalloc(n);
}
EXPORT void* calloc(size_t n, size_t m) {
  return Birth(kCalloc, n * m, 0, CallerHere(), [n, m] { return setting.inner.calloc(n, m); });
}
EXPORT void* realloc(void* p, size_t n) { return Resize(p, n, CallerHere()); }
EXPORT void* reallocarray(void* p, size_t n, size_t m) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(n, m, &bytes)) return Resize(p, bytes, CallerHere());
  errno = ENOMEM;
  return nullptr;
}
EXPORT void* memalign(size_t a, size_t n) {
  return Birth(kAligned, n, a, CallerHere(),
               [a, n] { return Next<"memalign", void*(size_t, size_t)>::Call(a, n); });
}
EXPORT void* aligned_alloc(size_t a, size_t n) {
  return Birth(kAligned, n, a, CallerHere(),
               [a, n] { return Next<"aligned_alloc", void*(size_t, size_t)>::Call(a, n); });
}
EXPORT int posix_memalign(void** p, size_t a, size_t n) {
  int error = 0;
  Birth(kAligned, n, a, CallerHere(), [&]() -> void* {
    error = Next<"posix_memalign", int(void**, size_t, size_t)>::Call(p, a, n);
    return error == 0 ? *p : nullptr;
  });
  return error;
}
EXPORT void* valloc(size_t n) {
  return Birth(kAligned, n, kPage, CallerHere(),
               [n] { return Next<"valloc", void*(size_t)>::Call(n); });
}
EXPORT void* pvalloc(size_t n) {
  return Birth(kAligned, n, kPage, CallerHere(),
               [n] { return Next<"pvalloc", void*(size_t)>::Call(n); });
}

EXPORT void free(void* p) { Free(p); }
EXPORT void cfree(void* p) { Free(p); }
EXPORT void free_sized(void* p, size_t) { Free(p); }
EXPORT void free_aligned_sized(void* p, size_t, size_t) { Free(p); }

// By their names, because their types here are those of the machine's calling convention.
#define OPERATOR_DELETE(symbol, ...) \
  EXPORT void symbol(void* p __VA_OPT__(, ) __VA_ARGS__) { Free(p); }
OPERATOR_DELETE(_ZdlPv)
OPERATOR_DELETE(_ZdaPv)
OPERATOR_DELETE(_ZdlPvm, size_t)
OPERATOR_DELETE(_ZdaPvm, size_t)
OPERATOR_DELETE(_ZdlPvSt11align_val_t, size_t)
OPERATOR_DELETE(_ZdaPvSt11align_val_t, size_t)
OPERATOR_DELETE(_ZdlPvmSt11align_val_t, size_t, size_t)
OPERATOR_DELETE(_ZdaPvmSt11align_val_t, size_t, size_t)
OPERATOR_DELETE(_ZdlPvRKSt9nothrow_t, const void*)
OPERATOR_DELETE(_ZdaPvRKSt9nothrow_t, const void*)
OPERATOR_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, size_t, const void*)
OPERATOR_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, size_t, const void*)

namespace {

template <SymbolName kSymbol, bool kThrows>
__attribute__((noinline)) void* RecordedNew(size_t n) {
  return New<kSymbol, kThrows>(CallerHere(), n, size_t{0});
}

template <SymbolName kSymbol, bool kThrows>
__attribute__((noinline)) void* NewWhileOff(size_t n) {
  void* const object = setting.inner.malloc(n + (n == 0));
  return object != nullptr ? object : RecordedNew<kSymbol, kThrows>(n);
}

template <SymbolName kSymbol, bool kThrows>
inline void* PlainNew(size_t n) {
  if (!NextNew<kSymbol>::is_malloc) return RecordedNew<kSymbol, kThrows>(n);
  if (Passes(n)) {
    void* const object = setting.inner.malloc(n + (n == 0));
    return object != nullptr ? object : RecordedNew<kSymbol, kThrows>(n);
  }
  if (PowerNow() == Power::kOff && sampled == nullptr) return NewWhileOff<kSymbol, kThrows>(n);
  return RecordedNew<kSymbol, kThrows>(n);
}

}  // namespace

#define OPERATOR_NEW(symbol)                                                              \
  EXPORT void* symbol(size_t n) { return PlainNew<#symbol, true>(n); }                    \
  EXPORT void* symbol##RKSt9nothrow_t(size_t n, const void* t) {                          \
    return New<#symbol "RKSt9nothrow_t", false>(CallerHere(), n, size_t{0}, t);           \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_t(size_t n, size_t a) {                              \
    return New<#symbol "St11align_val_t", true>(CallerHere(), n, a, a);                   \
  }                                                                                       \
  EXPORT void* symbol##St11align_val_tRKSt9nothrow_t(size_t n, size_t a, const void* t) { \
    return New<#symbol "St11align_val_tRKSt9nothrow_t", false>(CallerHere(), n, a, a, t); \
  }
OPERATOR_NEW(_Znwm)
OPERATOR_NEW(_Znam)

EXPORT int dlclose(void* object) {
  BeginOnce();
  const std::uint64_t before = ObjectsUnloaded();
  const int result = Next<"dlclose", int(void*)>::Call(object);
  if (process != nullptr && process->stacks != nullptr && ObjectsUnloaded() != before)
    ForgetCode(*process->stacks);
  return result;
}

// A process that ends so runs no destructors.
EXPORT [[noreturn]] void _exit(int status) {
  if (IsOwnProcess()) RecordRest();
  NoteEnd();
  for (;;) syscall(SYS_exit_group, status);
}
EXPORT [[noreturn]] void _Exit(int status) { _exit(status); }
