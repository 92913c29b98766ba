// libtare-marksweep.so: preloaded in front of an allocator, it finds out which objects of a program
// can still be reached, and gives the others back to the allocator.
//
// objects.hpp stands for malloc and free, collector.hpp is the collector. The calls of the program
// that the collector must know of are in mappings.cpp (memory that is not the allocator's),
// threads.cpp (new threads), kernel.cpp (pointers that the kernel holds) and waits.cpp (system
// calls that a stop interrupts).

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "objects.hpp"
#include "operators_delete.hpp"
#include "operators_new.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/glibc.hpp"

extern "C" {
extern char __ehdr_start __attribute__((visibility("hidden")));
extern char _end __attribute__((visibility("hidden")));
}

namespace tare {
namespace {

constinit bool forked_in_handler = false;

int FindInner(dl_phdr_info* information, std::size_t, void*) {
  const auto function = reinterpret_cast<Address>(process.inner.malloc);
  Address from = ~Address{0}, to = 0;
  for (int i = 0; i < information->dlpi_phnum; ++i) {
    const auto& segment = information->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    from = std::min<Address>(from, information->dlpi_addr + segment.p_vaddr);
    to = std::max<Address>(to, information->dlpi_addr + segment.p_vaddr + segment.p_memsz);
  }
  if (function < from || function >= to) return 0;
  process.inner_from = from;
  process.inner_to = to;
  return 1;
}

void FindInnerOnce() {
  if (process.inner_to == 0) dl_iterate_phdr(FindInner, nullptr);
}

void BeginCounters() {
  if (OwnHeader(process) == nullptr) return;
  ShowInner(*process.header, process.inner);
  metadata.peak = &process.header->peak_active_pages_bytes;
}

void EndThread(void*) {
  const Critical critical;
  Thread& t = thread;
  Publish(t);
  GiveSlot(t.slot);
  t.slot = nullptr;
}

// No lock is taken that an allocator may ask for while it holds its own: the allocator waits for
// those of its other threads here, too. What they guard is fit for use by the child at any time.
// A handler of the program can fork in the midst of a critical section.
void BeforeFork() {
  forked_in_handler = thread.depth > 0;
  if (forked_in_handler) return;
  process.forks_waiting.fetch_add(1, std::memory_order_relaxed);
  process.collector.lock();
  process.forks_waiting.fetch_sub(1, std::memory_order_relaxed);
  EnterCritical(thread);
}

void AfterForkInParent() {
  if (forked_in_handler) return;
  LeaveCritical(thread);
  process.collector.unlock();
}

// There is one thread now, and others have left what they did where it was.
void AfterForkInChild() {
  Thread& t = thread;
  ranges.AfterForkInChild();
  beside.AfterForkInChild();
  metadata.AfterForkInChild();
  process.collector.unlock();
  process.forks_waiting.store(0, std::memory_order_relaxed);
  process.slots_lock.unlock();
  process.watched_lock.unlock();
  if (!forked_in_handler) t.depth = t.depth - 1;
  t.must_park = false;
  world.epoch.store(0, std::memory_order_relaxed);
  world.parked.Begin(0);
  world.first_ended = false;
  process.pid = getpid();
  process.slots.Clear();
  process.header_of_parent = true;
  metadata.peak = nullptr;
  sweep.record = nullptr;
  drag = {};
  process.allocated.store(0, std::memory_order_relaxed);
  if (OwnHeader(process) == nullptr) return;
  metadata.peak = &process.header->peak_active_pages_bytes;
  t.slot = nullptr;
  t.granted = t.credit = 0;
}

__attribute__((constructor)) void Constructor() {
  BeginOnce();
  TakeStopSignal();
  Marker::step = process.options.scan;
  Marker::in_quarantine = IsQuarantine();
  if (process.options.concurrent && !Beside::IsPossible())
    Refuse("mark=concurrent needs Linux 6.7 and userfaultfd, which this process cannot use");
  process.has_guards = platform::GuardsStacksByAdvice();
  roots.MapLists();
  markers.MapLists();
  world.asked.Map();
  world.ended.Map();
  roots.ClaimFirstMappings();
  roots.FindStaticData();
  FindInnerOnce();
  process.inner.free(process.inner.malloc(1));  // which makes the lists that are looked for
  roots.LeaveOutAllocator();
  const auto own = reinterpret_cast<Address>(&__ehdr_start);
  ranges.Assign(own, PageUp(reinterpret_cast<Address>(&_end)), Owner::kAllocator);
  pthread_atfork(BeforeFork, AfterForkInParent, AfterForkInChild);
  SetThreshold(0);
  process.ready = process.header != nullptr;
}

}  // namespace

bool IsAllocator(const void* caller) {
  if (process.inner.malloc == nullptr) {
    const Critical critical;
    Resolve(process.inner);
  }
  FindInnerOnce();
  const auto address = reinterpret_cast<Address>(caller);
  return thread.depth > 0 || (address >= process.inner_from && address < process.inner_to) ||
         (caller >= &__ehdr_start && caller < &_end);
}

// At the first call that can read the environment, and at the latest as a constructor. The dynamic
// linker allocates before the C library knows its environment.
void BeginOnce() {
  if (process.began) return;
  const Critical critical;
  if (process.inner.malloc == nullptr) Resolve(process.inner);
  process.inner_is_glibc =
      ObjectOf(process.inner.free).dli_fbase == ObjectOf(sched_yield).dli_fbase;
  if (environ == nullptr) return;
  process.began = true;
  process.options = ReadOptions();
  process.free = process.options.free;
  marks_beside = process.options.concurrent;
  process.counters_folder = getenv("TARE_MARKSWEEP_COUNTERS");
  process.pid = getpid();
  pthread_key_create(&process.thread_end, EndThread);
  BeginCounters();
}

}  // namespace tare

using std::size_t;

namespace {

using NextFork = tare::Next<"_Fork", int()>;

bool Multiply(size_t n, size_t m, size_t& bytes) {
  if (!__builtin_mul_overflow(n, m, &bytes)) return true;
  errno = ENOMEM;
  return false;
}

bool IsPowerOfTwo(size_t number) { return number != 0 && (number & (number - 1)) == 0; }

using NewHandler = void (*)();

// What operator new does when there is no memory is the business of the C++ library.
template <typename Allocate>
__attribute__((noinline)) void* NewWithoutMemory(Allocate allocate) {
  using GetHandler = tare::Next<"_ZSt15get_new_handlerv", NewHandler()>;
  using Throw = tare::Next<"_ZSt17__throw_bad_allocv", void()>;
  for (;;) {
    const NewHandler handler = GetHandler::Exists() ? GetHandler::Call() : nullptr;
    if (handler == nullptr) Throw::Call();
    handler();
    if (void* const object = allocate()) return object;
  }
}

template <typename Allocate>
void* NewOrThrow(Allocate allocate) {
  void* const object = allocate();
  return object != nullptr ? object : NewWithoutMemory(allocate);
}

void* NewObject(size_t bytes) {
  return NewOrThrow([bytes] { return tare::Malloc(bytes); });
}
void* NewObject(size_t bytes, size_t alignment) {
  return NewOrThrow([=] { return tare::Aligned(alignment, bytes); });
}
void* NewObject(size_t bytes, const void*) { return tare::Malloc(bytes); }
void* NewObject(size_t bytes, size_t alignment, const void*) {
  return tare::Aligned(alignment, bytes);
}

}  // namespace

EXPORT void* malloc(size_t n) { return tare::Malloc(n); }
EXPORT void* calloc(size_t n, size_t m) {
  size_t bytes = 0;
  return Multiply(n, m, bytes) ? tare::Calloc(bytes) : nullptr;
}
EXPORT void* realloc(void* p, size_t n) { return tare::Resize(p, n); }
EXPORT void* reallocarray(void* p, size_t n, size_t m) {
  size_t bytes = 0;
  return Multiply(n, m, bytes) ? tare::Resize(p, bytes) : nullptr;
}
EXPORT void* memalign(size_t a, size_t n) { return tare::Aligned(a, n); }
EXPORT void* aligned_alloc(size_t a, size_t n) {
  if (IsPowerOfTwo(a)) return tare::Aligned(a, n);
  errno = EINVAL;
  return nullptr;
}
EXPORT int posix_memalign(void** p, size_t a, size_t n) {
  if (!IsPowerOfTwo(a) || a % sizeof(void*) != 0) return EINVAL;
  const tare::KeepErrno keep;
  void* const object = tare::Aligned(a, n);
  if (object == nullptr) return ENOMEM;
  *p = object;
  return 0;
}
EXPORT void* valloc(size_t n) { return tare::Aligned(tare::platform::PageBytes(), n); }
EXPORT void* pvalloc(size_t n) {
  return tare::Aligned(tare::platform::PageBytes(), tare::PageUp(n));
}
EXPORT size_t malloc_usable_size(void* p) { return tare::UsableSize(p); }

EXPORT void free(void* p) { tare::Free(p); }
EXPORT void cfree(void* p) { tare::Free(p); }
EXPORT void free_sized(void* p, size_t) { tare::Free(p); }
EXPORT void free_aligned_sized(void* p, size_t, size_t) { tare::Free(p); }

#define OPERATOR_NEW(symbol, parameters, arguments) \
  EXPORT void* symbol parameters { return NewObject arguments; }
TARE_EACH_OPERATOR_NEW(OPERATOR_NEW)

#define OPERATOR_DELETE(symbol, ...) \
  EXPORT void symbol(void* p __VA_OPT__(, ) __VA_ARGS__) { tare::Free(p); }
TARE_EACH_OPERATOR_DELETE(OPERATOR_DELETE)

// The C library's fork calls handlers, this one does not.
EXPORT int _Fork() noexcept {
  tare::BeforeFork();
  const int child = NextFork::Call();
  if (child == 0)
    tare::AfterForkInChild();
  else
    tare::AfterForkInParent();
  return child;
}

// For Tare's recorder: what the layer holds of the program's memory.
EXPORT void tare_layer_held(void (*each)(void*, size_t, void*), void* data) {
  tare::VisitHeld(each, data);
}

// For programs that want a collection now; tests and benchmarks do.
EXPORT void tare_marksweep_collect() {
  tare::BeginOnce();
  tare::Collect(0, true, 0);
}
