// The pools of the Apache Portable Runtime, libapr-1.
//
// The program's pools stay, with their cleanups, user data and order of destruction. Only the
// objects come from elsewhere: each pool has a region beside it. A pointer to that lies in the
// pool's own memory, at the same distance from the pool in all of them, because it is the first
// thing that is allocated in a new or cleared pool.
//
// A pool that is destroyed or cleared destroys those in it by calls inside of libapr that nobody
// else sees. So the regions know those in them, and go with the outer one.

#include <sys/single_threaded.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include "next.hpp"
#include "served_region.hpp"
#include "spin_lock.hpp"
#include "tare/platform/exported.hpp"

struct apr_pool_t;
struct apr_allocator_t;
using AbortFunction = int(int);

namespace tare::regions {
namespace {

using OriginalAllocate = Next<"apr_palloc", void*(apr_pool_t*, std::size_t)>;
using OriginalAllocateZeroed = Next<"apr_pcalloc", void*(apr_pool_t*, std::size_t)>;
using OriginalClear = Next<"apr_pool_clear", void(apr_pool_t*)>;
using OriginalDestroy = Next<"apr_pool_destroy", void(apr_pool_t*)>;
using OriginalParent = Next<"apr_pool_parent_get", apr_pool_t*(apr_pool_t*)>;
using OriginalAbort = Next<"apr_pool_abort_get", AbortFunction*(apr_pool_t*)>;
using OriginalFormat = Next<"apr_vsnprintf", int(char*, std::size_t, const char*, va_list)>;
using OriginalFormatInPool = Next<"apr_pvsprintf", char*(apr_pool_t*, const char*, va_list)>;
using CreateFunction = int(apr_pool_t**, apr_pool_t*, AbortFunction*, apr_allocator_t*);
using OriginalCreate = Next<"apr_pool_create_ex", CreateFunction>;
using CreateAloneFunction = int(apr_pool_t**, AbortFunction*, apr_allocator_t*);
using OriginalCreateUnmanaged = Next<"apr_pool_create_unmanaged_ex", CreateAloneFunction>;
using OriginalCreateCore = Next<"apr_pool_create_core_ex", CreateAloneFunction>;

struct Pool {
  Pool(apr_pool_t* of, Pool* in, const void* frame)
      : pool(of), region(kApr, in != nullptr ? &in->region : nullptr, frame), parent(in) {}

  apr_pool_t* pool;  // nullptr once it is destroyed
  ServedRegion region;
  Pool* parent;
  Pool* first_child = nullptr;
  Pool* next = nullptr;
  Pool* previous = nullptr;
};

// Whether the pools are left to the original altogether.
inline bool IsUntouched() {
  return process.options.route == Route::kOriginal && !process.is_watching;
}

struct Slot {
  std::uintptr_t check;
  Pool* pool;
};

constinit SpinLock tree_lock;

// Of the tree of pools. A process that has one thread needs no lock.
class TreeGuard {
 public:
  TreeGuard() : is_locked_(!__libc_single_threaded) {
    if (is_locked_) tree_lock.lock();
  }
  ~TreeGuard() {
    if (is_locked_) tree_lock.unlock();
  }
  TreeGuard(const TreeGuard&) = delete;
  TreeGuard& operator=(const TreeGuard&) = delete;

 private:
  bool is_locked_;
};

constinit Pool* ended_pools = nullptr;  // memory for new ones, guarded by tree_lock
constinit std::atomic<std::ptrdiff_t> slot_distance = 0;

std::uintptr_t CheckOf(const apr_pool_t* pool) {
  return reinterpret_cast<std::uintptr_t>(pool) ^ 0x7e9105107e910510;
}

// nullptr for a pool that was made where nobody saw it.
inline Pool* PoolOf(apr_pool_t* pool) {
  const std::ptrdiff_t distance = slot_distance.load(std::memory_order_relaxed);
  if (distance == 0) return nullptr;
  const auto* const slot =
      reinterpret_cast<const Slot*>(reinterpret_cast<const char*>(pool) + distance);
  if (slot->check != CheckOf(pool) || slot->pool->pool != pool) return nullptr;
  return slot->pool;
}

// False where the pool is not laid out as others.
bool PutSlot(apr_pool_t* pool, Pool* of) {
  auto* const slot = static_cast<Slot*>(OriginalAllocate::Call(pool, sizeof(Slot)));
  if (slot == nullptr) return false;
  const std::ptrdiff_t distance = reinterpret_cast<char*>(slot) - reinterpret_cast<char*>(pool);
  std::ptrdiff_t known = 0;
  if (!slot_distance.compare_exchange_strong(known, distance) && known != distance) return false;
  *slot = {CheckOf(pool), of};
  return true;
}

// Links a new pool into the tree.
Pool* Make(apr_pool_t* of, Pool* parent, const void* frame) {
  const TreeGuard guard;
  void* memory = ended_pools;
  if (memory != nullptr) ended_pools = ended_pools->next;
  if (memory == nullptr) memory = reap_malloc(process.own, sizeof(Pool));
  if (memory == nullptr) return nullptr;
  auto* const pool = new (memory) Pool(of, parent, frame);
  if (parent == nullptr) return pool;
  pool->next = parent->first_child;
  if (pool->next != nullptr) pool->next->previous = pool;
  parent->first_child = pool;
  return pool;
}

void Unlink(Pool* pool) {
  const TreeGuard guard;
  if (pool->parent != nullptr) {
    (pool->previous != nullptr ? pool->previous->next : pool->parent->first_child) = pool->next;
    if (pool->next != nullptr) pool->next->previous = pool->previous;
  }
  pool->pool = nullptr;
  pool->next = ended_pools;
  ended_pools = pool;
}

// The end of the regions of `pool` and those inside, after the original has destroyed the pool.
void End(Pool* pool, const void* frame) {
  while (pool->first_child != nullptr) End(pool->first_child, frame);
  pool->region.Destroy(frame);
  Unlink(pool);
}

// Gives a new pool its region. Without memory for that the pool stays as it is.
void Adopt(apr_pool_t* pool, apr_pool_t* parent, const void* frame) {
  Begin();
  if (IsUntouched()) return CountRegion(kApr);
  if (parent == nullptr) parent = OriginalParent::Call(pool);
  Pool* const adopted = Make(pool, parent != nullptr ? PoolOf(parent) : nullptr, frame);
  if (adopted != nullptr && !PutSlot(pool, adopted)) End(adopted, frame);
}

void* OrAbort(apr_pool_t* pool, void* object) {
  if (object == nullptr) [[unlikely]] {
    if (AbortFunction* const abort_function = OriginalAbort::Call(pool)) abort_function(ENOMEM);
  }
  return object;
}

enum class Content { kAny, kZeros };

// Zeros are there before the object is: making them is no use of it.
void* AllocateWatched(apr_pool_t* pool, std::size_t bytes, Content content, const void* frame) {
  Pool* const served = PoolOf(pool);
  const bool is_zeroed = content == Content::kZeros;
  if (served == nullptr)
    return is_zeroed ? OriginalAllocateZeroed::Call(pool, bytes)
                     : OriginalAllocate::Call(pool, bytes);
  void* const object = process.options.route == Route::kOriginal
                           ? OriginalAllocate::Call(pool, bytes)
                           : served->region.Allocate(bytes);
  if (is_zeroed && object != nullptr) memset(object, 0, bytes);
  served->region.Watch(object, bytes, frame);
  return OrAbort(pool, object);
}

// Jumped to, so that its caller is the program.
__attribute__((noinline)) void* AllocateUnusually(apr_pool_t* pool, std::size_t bytes) {
  return AllocateWatched(pool, bytes, Content::kAny, __builtin_frame_address(0));
}

// nullptr where more is to be done.
inline void* AllocateQuickly(apr_pool_t* pool, std::size_t bytes) {
  if (!process.is_quick) return nullptr;
  Pool* const served = PoolOf(pool);
  return served == nullptr ? nullptr : served->region.TryBump(bytes);
}

inline void* Allocate(apr_pool_t* pool, std::size_t bytes) {
  void* const object = AllocateQuickly(pool, bytes);
  return object != nullptr ? object : AllocateUnusually(pool, bytes);
}

char* CopyOf(apr_pool_t* pool, const char* text, std::size_t length, const void* frame) {
  auto* const copy = static_cast<char*>(AllocateWatched(pool, length + 1, Content::kAny, frame));
  if (copy != nullptr) memcpy(copy, text, length + 1);
  return copy;
}

// The original writes into the pool's memory itself, so this formats elsewhere and copies.
char* Format(apr_pool_t* pool, const char* format, va_list arguments, const void* frame) {
  if (IsUntouched()) return OriginalFormatInPool::Call(pool, format, arguments);
  char small[1024];
  char* text = small;
  for (std::size_t room = sizeof small;; room *= 4) {
    va_list again;
    va_copy(again, arguments);
    const int length = OriginalFormat::Call(text, room, format, again);
    va_end(again);
    if (length >= 0 && static_cast<std::size_t>(length) < room - 1) {
      char* const copy = CopyOf(pool, text, static_cast<std::size_t>(length), frame);
      if (text != small) reap_free(process.own, text);
      return copy;
    }
    if (text != small) reap_free(process.own, text);
    text = static_cast<char*>(reap_malloc(process.own, 4 * room));
    if (text == nullptr) return static_cast<char*>(OrAbort(pool, nullptr));
  }
}

}  // namespace
}  // namespace tare::regions

#define FRAME __builtin_frame_address(0)

EXPORT int apr_pool_create_ex(apr_pool_t** made, apr_pool_t* parent, AbortFunction* on_failure,
                              apr_allocator_t* allocator) {
  using namespace tare::regions;
  const int status = OriginalCreate::Call(made, parent, on_failure, allocator);
  if (status == 0) Adopt(*made, parent, FRAME);
  return status;
}

EXPORT int apr_pool_create_unmanaged_ex(apr_pool_t** made, AbortFunction* on_failure,
                                        apr_allocator_t* allocator) {
  using namespace tare::regions;
  const int status = OriginalCreateUnmanaged::Call(made, on_failure, allocator);
  if (status == 0) Adopt(*made, nullptr, FRAME);
  return status;
}

EXPORT int apr_pool_create_core_ex(apr_pool_t** made, AbortFunction* on_failure,
                                   apr_allocator_t* allocator) {
  using namespace tare::regions;
  const int status = OriginalCreateCore::Call(made, on_failure, allocator);
  if (status == 0) Adopt(*made, nullptr, FRAME);
  return status;
}

EXPORT void apr_pool_clear(apr_pool_t* pool) {
  using namespace tare::regions;
  Pool* const served = PoolOf(pool);
  OriginalClear::Call(pool);
  if (served == nullptr) return;
  while (served->first_child != nullptr) End(served->first_child, FRAME);
  served->region.Clear(FRAME);
  if (!PutSlot(pool, served)) End(served, FRAME);
}

EXPORT void apr_pool_destroy(apr_pool_t* pool) {
  using namespace tare::regions;
  Pool* const served = PoolOf(pool);
  OriginalDestroy::Call(pool);
  if (served != nullptr) End(served, FRAME);
}

EXPORT void* apr_palloc(apr_pool_t* pool, std::size_t bytes) {
  return tare::regions::Allocate(pool, bytes);
}

EXPORT void* apr_pcalloc(apr_pool_t* pool, std::size_t bytes) {
  using namespace tare::regions;
  if (void* const object = AllocateQuickly(pool, bytes)) return memset(object, 0, bytes);
  return AllocateWatched(pool, bytes, Content::kZeros, FRAME);
}

EXPORT char* apr_pvsprintf(apr_pool_t* pool, const char* format, va_list arguments) {
  return tare::regions::Format(pool, format, arguments, FRAME);
}

EXPORT char* apr_psprintf(apr_pool_t* pool, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char* const text = tare::regions::Format(pool, format, arguments, FRAME);
  va_end(arguments);
  return text;
}

// Not a function of libapr: it frees one object of a pool, for programs that look for it.
EXPORT void apr_pfree(apr_pool_t* pool, void* object) {
  using namespace tare::regions;
  if (Pool* const served = PoolOf(pool)) served->region.Free(object, FRAME);
}
