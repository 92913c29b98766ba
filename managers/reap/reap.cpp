// The C interface.

#include "lanes.hpp"

namespace tare::reap {
namespace {

__attribute__((constructor)) void Prepare() { PrepareChunkCache(); }

Reap& Of(reap_t* reap) { return *static_cast<Reap*>(reap); }
const Reap& Of(const reap_t* reap) { return *static_cast<const Reap*>(reap); }

bool IsHardened(const Reap& reap) { return reap.options & REAP_HARDENED; }

void* OrError(void* object) {
  if (object == nullptr) [[unlikely]]
    errno = ENOMEM;
  return object;
}

// Of a reap with options.
__attribute__((noinline)) void* AllocateCarefully(Reap& reap, std::size_t alignment,
                                                  std::size_t size) {
  const bool hardened = IsHardened(reap);
  if (size > kLargestRequest) return nullptr;
  return InLaneOfThread(reap, [&](Reap& lane) {
    void* const object = lane.AllocateAligned(alignment, size + (hardened ? kGuardBytes : 0));
    if (hardened && object != nullptr) SetGuard(object, size);
    return object;
  });
}

__attribute__((noinline)) void* AllocateUnusually(Reap& reap, std::size_t size) {
  return OrError(reap.options != 0 ? AllocateCarefully(reap, kUnit, size) : reap.Allocate(size));
}

__attribute__((noinline)) void FreeCarefully(Reap& reap, void* object) {
  if (IsHardened(reap)) CheckOwner(reap, object);
  InLaneOf(reap, object, [&](Reap& lane) {
    if (IsHardened(reap)) CheckGuard(object);
    lane.FreeNow(object);
  });
}

__attribute__((noinline)) void FreeUnusually(Reap& reap, void* object) {
  if (reap.options != 0) return FreeCarefully(reap, object);
  reap.FreeNow(object);
}

std::size_t UsableSize(void* object) {
  const Reap* const owner = owner_map.Get(object);
  if (owner != nullptr && IsHardened(*owner)) return GuardedSize(object);
  return Reap::UsableSize(object);
}

bool Resize(Reap& reap, void* object, std::size_t size) {
  if (!IsHardened(reap))
    return InLaneOf(reap, object, [&](Reap& lane) { return lane.Resize(object, size); });
  CheckOwner(reap, object);
  CheckGuard(object);
  return false;
}

// `work`, under the lock of `reap` if it is shared.
template <typename Work>
void Alone(Reap& reap, Work work) {
  if (IsShared(reap)) [[unlikely]] {
    const std::scoped_lock guard(reap.lock);
    work();
  } else {
    work();
  }
}

void Link(Reap& parent, Reap& child) {
  child.parent = &parent;
  Alone(parent, [&] {
    child.next_sibling = parent.first_child;
    if (parent.first_child != nullptr) parent.first_child->previous_sibling = &child;
    parent.first_child = &child;
  });
}

void Unlink(Reap& child) {
  Alone(*child.parent, [&] {
    Reap* const next = child.next_sibling;
    Reap* const previous = child.previous_sibling;
    (previous != nullptr ? previous->next_sibling : child.parent->first_child) = next;
    if (next != nullptr) next->previous_sibling = previous;
  });
}

void End(Reap& reap) {
  if (reap.parent != nullptr) Unlink(reap);
  if (IsShared(reap)) [[unlikely]]
    EndLanes(reap);
  reap.End();
}

// However deep they nest.
__attribute__((noinline)) void EndDescendants(Reap& reap) {
  for (Reap* youngest = &reap;;) {
    while (youngest->first_child != nullptr) youngest = youngest->first_child;
    if (youngest == &reap) return;
    Reap* const parent = youngest->parent;
    End(*youngest);
    youngest = parent;
  }
}

}  // namespace
}  // namespace tare::reap

// Within few lines of the cache of instructions, wherever what comes before ends.
#define TARE_HOT __attribute__((aligned(64)))

using namespace tare::reap;

#pragma GCC visibility push(default)

reap_t* reap_create(reap_t* parent) { return reap_create_with(parent, 0); }

reap_t* reap_create_with(reap_t* parent, unsigned options) {
  if (options & ~Reap::kOptions) {
    errno = EINVAL;
    return nullptr;
  }
  Reap* const reap = Reap::Create(options);
  if (reap == nullptr || (options & REAP_SHARED && !MakeLanes(*reap))) {
    if (reap != nullptr) reap->End();
    errno = ENOMEM;
    return nullptr;
  }
  if (parent != nullptr) Link(Of(parent), *reap);
  return reap;
}

void reap_free_all(reap_t* reap) {
  EndDescendants(Of(reap));
  ForEachLane(Of(reap), [](Reap& lane) { lane.StartOver(); });
}

void reap_destroy(reap_t* reap) {
  if (reap == nullptr) return;
  if (Of(reap).first_child != nullptr) EndDescendants(Of(reap));
  End(Of(reap));
}

void* reap_malloc_slowly(reap_t* reap, size_t size) {
  Reap& from = Of(reap);
  void* const object = from.IsPlainHeap() ? from.TryLists(size) : nullptr;
  return object != nullptr ? object : AllocateUnusually(from, size);
}

TARE_HOT void* reap_malloc(reap_t* reap, size_t size) {
  void* const object = Of(reap).TryBump(size);
  return object != nullptr ? object : reap_malloc_slowly(reap, size);
}

void* reap_calloc(reap_t* reap, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return OrError(nullptr);
  void* const object = reap_malloc(reap, bytes);
  return object == nullptr ? nullptr : memset(object, 0, bytes);
}

void* reap_aligned_alloc(reap_t* reap, size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  Reap& from = Of(reap);
  if (from.options != 0) return OrError(AllocateCarefully(from, alignment, size));
  return OrError(from.AllocateAligned(alignment, size));
}

void* reap_realloc(reap_t* reap, void* object, size_t size) {
  if (object == nullptr) return reap_malloc(reap, size);
  if (Resize(Of(reap), object, size)) return object;
  void* const moved = reap_malloc(reap, size);
  if (moved == nullptr) return nullptr;
  memcpy(moved, object, std::min(size, reap_usable_size(object)));
  reap_free(reap, object);
  return moved;
}

TARE_HOT void reap_free(reap_t* reap, void* object) {
  if (object == nullptr) return;
  Reap& from = Of(reap);
  if (!from.IsPlainHeap()) [[unlikely]]
    return FreeUnusually(from, object);
  from.FreeOfPlainHeap(object);
}

size_t reap_usable_size(const void* object) {
  return object == nullptr ? 0 : UsableSize(const_cast<void*>(object));
}

reap_t* reap_of(const void* pointer) {
  const Reap* const owner = owner_map.Get(pointer);
  return owner == nullptr ? nullptr : owner->root;
}

int reap_owns(const reap_t* reap, const void* pointer) { return reap_of(pointer) == reap; }

void reap_get_statistics(const reap_t* reap, reap_statistics_t* statistics) {
  *statistics = {};
  auto& counted = const_cast<Reap&>(Of(reap));
  ForEachLane(counted, [&](Reap& lane) {
    lane.FreeDeferred();
    lane.AddTo(*statistics);
  });
  Alone(counted, [&] {
    for (const Reap* child = counted.first_child; child != nullptr; child = child->next_sibling)
      ++statistics->children;
  });
}

void reap_set_cache_limit(size_t bytes) {
  const std::scoped_lock guard(shared_stock.lock);
  shared_stock.limit = bytes;
  Shrink(shared_stock.stock, bytes);
}

size_t reap_trim(void) { return Trim(); }

#pragma GCC visibility pop
