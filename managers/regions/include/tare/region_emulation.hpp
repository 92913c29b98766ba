// Regions, nested regions and obstacks on top of any malloc, after section 3.1 of Berger, Zorn and
// McKinley, Reconsidering Custom Memory Allocation (OOPSLA 2002): every object of a region is an
// object of the malloc, freed when the region goes. What a region has to remember stands apart from
// its objects, in a list of pointers, so that the last access to an object is the program's own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tare {

// Where objects come from unless it is said otherwise.
struct StandardMalloc {
  static void* Allocate(std::size_t bytes) { return std::malloc(bytes); }
  static void Free(void* object) { std::free(object); }
};

// The pointers of a region, oldest first. `Memory` has Resize(old, bytes), as realloc, and
// Free(memory). Removing any but the newest builds an index, which is kept from then on.
template <typename Memory>
class PointerList {
 public:
  PointerList() = default;
  PointerList(const PointerList&) = delete;
  PointerList& operator=(const PointerList&) = delete;
  ~PointerList() { Clear(); }

  std::size_t Count() const { return count_; }
  void* operator[](std::size_t place) const { return pointers_[place]; }
  void* Newest() const { return count_ == 0 ? nullptr : pointers_[count_ - 1]; }

  // False when memory is short.
  bool Append(void* pointer) {
    if (count_ == capacity_ && !Grow()) return false;
    if (index_ != nullptr && !Index(pointer, count_)) return false;
    pointers_[count_++] = pointer;
    return true;
  }

  void RemoveNewest() {
    if (index_ != nullptr) Forget(FindSlot(pointers_[count_ - 1]));
    --count_;
    while (count_ > 0 && pointers_[count_ - 1] == nullptr) {
      --count_;
      --empty_;
    }
  }

  // Whether it was there. The place of `pointer` is left empty, and such places are closed up once
  // they are half of the list.
  bool Remove(void* pointer) {
    if (count_ == 0) return false;
    if (pointers_[count_ - 1] == pointer) {
      RemoveNewest();
      return true;
    }
    if (index_ == nullptr && !BuildIndex()) return false;
    const std::size_t slot = FindSlot(pointer);
    if (index_[slot] == kNone) return false;
    pointers_[index_[slot]] = nullptr;
    Forget(slot);
    if (++empty_ > count_ / 2) Close();
    return true;
  }

  void Clear() {
    Memory::Free(pointers_);
    Memory::Free(index_);
    pointers_ = nullptr;
    index_ = nullptr;
    count_ = capacity_ = empty_ = slots_ = 0;
  }

  // As Clear, and the memory of the list stays.
  void Empty() {
    Memory::Free(index_);
    index_ = nullptr;
    count_ = empty_ = slots_ = 0;
  }

 private:
  using Place = std::uint64_t;
  static constexpr Place kNone = ~Place{0};
  static constexpr std::size_t kFirstCapacity = 14;

  bool Grow() {
    const std::size_t more = capacity_ == 0 ? kFirstCapacity : 2 * capacity_;
    void* const grown = Memory::Resize(pointers_, more * sizeof(void*));
    if (grown == nullptr) return false;
    pointers_ = static_cast<void**>(grown);
    capacity_ = more;
    return true;
  }

  static std::size_t Hash(const void* pointer) {
    return (reinterpret_cast<std::uintptr_t>(pointer) * 0x9e3779b97f4a7c15) >> 20;
  }

  // The slot of `pointer`, or the empty one where it would be.
  std::size_t FindSlot(const void* pointer) const {
    std::size_t slot = Hash(pointer) & (slots_ - 1);
    while (index_[slot] != kNone && pointers_[index_[slot]] != pointer)
      slot = (slot + 1) & (slots_ - 1);
    return slot;
  }

  bool Index(void* pointer, std::size_t place) {
    if (2 * (place + 1) > slots_ && !BuildIndex()) return false;
    std::size_t slot = Hash(pointer) & (slots_ - 1);
    while (index_[slot] != kNone) slot = (slot + 1) & (slots_ - 1);
    index_[slot] = place;
    return true;
  }

  bool BuildIndex() {
    std::size_t slots = 64;
    while (slots < 4 * (count_ + 1)) slots *= 2;
    void* const table = Memory::Resize(nullptr, slots * sizeof(Place));
    if (table == nullptr) return false;
    Memory::Free(index_);
    index_ = static_cast<Place*>(table);
    slots_ = slots;
    std::memset(index_, 0xff, slots * sizeof(Place));
    for (std::size_t place = 0; place < count_; ++place) {
      if (pointers_[place] == nullptr) continue;
      std::size_t slot = Hash(pointers_[place]) & (slots_ - 1);
      while (index_[slot] != kNone) slot = (slot + 1) & (slots_ - 1);
      index_[slot] = place;
    }
    return true;
  }

  // Empties a slot, and moves up what stands behind it and would not be found any more.
  void Forget(std::size_t slot) {
    std::size_t hole = slot;
    for (std::size_t next = (hole + 1) & (slots_ - 1); index_[next] != kNone;
         next = (next + 1) & (slots_ - 1)) {
      const std::size_t home = Hash(pointers_[index_[next]]) & (slots_ - 1);
      if (((next - home) & (slots_ - 1)) < ((next - hole) & (slots_ - 1))) continue;
      index_[hole] = index_[next];
      hole = next;
    }
    index_[hole] = kNone;
  }

  void Close() {
    std::size_t kept = 0;
    for (std::size_t place = 0; place < count_; ++place)
      if (pointers_[place] != nullptr) pointers_[kept++] = pointers_[place];
    count_ = kept;
    empty_ = 0;
    Memory::Free(index_);
    index_ = nullptr;
    slots_ = 0;
  }

  void** pointers_ = nullptr;
  std::size_t count_ = 0;
  std::size_t capacity_ = 0;
  std::size_t empty_ = 0;
  Place* index_ = nullptr;  // places by pointer, open addressing; nullptr until it is needed
  std::size_t slots_ = 0;
};

// The memory of lists, unless it is said otherwise.
struct StandardMemory {
  static void* Resize(void* memory, std::size_t bytes) { return std::realloc(memory, bytes); }
  static void Free(void* memory) { std::free(memory); }
};

// A region over the malloc of `Heap`. It is used by one thread at a time.
template <typename Heap = StandardMalloc, typename Memory = StandardMemory>
class EmulatedRegion {
 public:
  EmulatedRegion() = default;
  EmulatedRegion(const EmulatedRegion&) = delete;
  EmulatedRegion& operator=(const EmulatedRegion&) = delete;
  // A region in `parent`, which is cleared with it.
  explicit EmulatedRegion(EmulatedRegion& parent) : parent_(&parent), next_(parent.first_child_) {
    if (next_ != nullptr) next_->previous_ = this;
    parent.first_child_ = this;
  }
  ~EmulatedRegion() {
    Clear();
    while (first_child_ != nullptr) first_child_->Leave();
    Leave();
  }

  // nullptr when memory is short.
  void* Allocate(std::size_t bytes) {
    void* const object = Heap::Allocate(bytes);
    if (object == nullptr || objects_.Append(object)) [[likely]]
      return object;
    Heap::Free(object);
    return nullptr;
  }

  // One object of this region; what is not of it is left alone.
  void Free(void* object) {
    if (object != nullptr && objects_.Remove(object)) Heap::Free(object);
  }

  // As an obstack does: `object` and all that are younger; all when it is not here.
  void FreeFrom(const void* object) {
    while (objects_.Count() > 0) {
      void* const newest = objects_.Newest();
      objects_.RemoveNewest();
      Heap::Free(newest);
      if (newest == object) return;
    }
  }

  // Every object, and those of the regions inside.
  void Clear() {
    for (EmulatedRegion* child = first_child_; child != nullptr; child = child->next_)
      child->Clear();
    for (std::size_t place = 0; place < objects_.Count(); ++place)
      if (objects_[place] != nullptr) Heap::Free(objects_[place]);
    objects_.Empty();
  }

 private:
  void Leave() {
    if (parent_ == nullptr) return;
    (previous_ != nullptr ? previous_->next_ : parent_->first_child_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    parent_ = nullptr;
  }

  PointerList<Memory> objects_;
  EmulatedRegion* parent_ = nullptr;
  EmulatedRegion* first_child_ = nullptr;
  EmulatedRegion* next_ = nullptr;
  EmulatedRegion* previous_ = nullptr;
};

}  // namespace tare
