// Reaps for C++: an owner, a memory resource for std::pmr, and an allocator for containers.

#ifndef TARE_REAP_HPP
#define TARE_REAP_HPP

#include <tare/reap.h>

#include <cstddef>
#include <limits>
#include <memory_resource>
#include <new>
#include <utility>

namespace tare {

// Owns a reap. Throws std::bad_alloc when memory is short.
class Reap {
 public:
  Reap() : Reap(0) {}
  explicit Reap(unsigned options) : reap_(Checked(reap_create_with(nullptr, options))) {}
  explicit Reap(Reap& parent, unsigned options = 0)
      : reap_(Checked(reap_create_with(parent.reap_, options))) {}
  Reap(Reap&& other) noexcept : reap_(std::exchange(other.reap_, nullptr)) {}
  Reap& operator=(Reap&& other) noexcept {
    if (this != &other) {
      reap_destroy(reap_);
      reap_ = std::exchange(other.reap_, nullptr);
    }
    return *this;
  }
  // A reap is destroyed with its parent: this one must go first.
  ~Reap() { reap_destroy(reap_); }

  void* Allocate(std::size_t size) { return Checked(reap_malloc(reap_, size)); }
  void* Allocate(std::size_t size, std::size_t alignment) {
    return Checked(reap_aligned_alloc(reap_, alignment, size));
  }
  void Free(void* object) { reap_free(reap_, object); }
  void FreeAll() { reap_free_all(reap_); }

  // The reap is destroyed without calling destructors of what is in it.
  template <typename T, typename... Arguments>
  T* New(Arguments&&... arguments) {
    void* const place = alignof(T) <= 16 ? Allocate(sizeof(T)) : Allocate(sizeof(T), alignof(T));
    try {
      return ::new (place) T(std::forward<Arguments>(arguments)...);
    } catch (...) {
      Free(place);
      throw;
    }
  }
  template <typename T>
  void Delete(T* object) {
    if (object == nullptr) return;
    object->~T();
    Free(object);
  }

  bool Owns(const void* pointer) const { return reap_owns(reap_, pointer) != 0; }
  reap_statistics_t Statistics() const {
    reap_statistics_t statistics;
    reap_get_statistics(reap_, &statistics);
    return statistics;
  }
  reap_t* Get() const { return reap_; }

 private:
  template <typename T>
  static T* Checked(T* pointer) {
    if (pointer == nullptr) throw std::bad_alloc();
    return pointer;
  }

  reap_t* reap_;
};

// A reap, which must live longer, as std::pmr::memory_resource.
class ReapResource : public std::pmr::memory_resource {
 public:
  explicit ReapResource(Reap& reap) : reap_(&reap) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    return alignment <= 16 ? reap_->Allocate(bytes) : reap_->Allocate(bytes, alignment);
  }
  void do_deallocate(void* object, std::size_t, std::size_t) override { reap_->Free(object); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    const auto* const resource = dynamic_cast<const ReapResource*>(&other);
    return resource != nullptr && resource->reap_->Get() == reap_->Get();
  }

  Reap* reap_;
};

// For containers whose memory comes from a reap, which must live longer.
template <typename T>
class ReapAllocator {
 public:
  using value_type = T;

  explicit ReapAllocator(Reap& reap) : reap_(&reap) {}
  template <typename U>
  ReapAllocator(const ReapAllocator<U>& other) : reap_(other.GetReap()) {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    const std::size_t bytes = count * sizeof(T);
    return static_cast<T*>(alignof(T) <= 16 ? reap_->Allocate(bytes)
                                            : reap_->Allocate(bytes, alignof(T)));
  }
  void deallocate(T* objects, std::size_t) { reap_->Free(objects); }

  Reap* GetReap() const { return reap_; }
  template <typename U>
  bool operator==(const ReapAllocator<U>& other) const {
    return reap_->Get() == other.GetReap()->Get();
  }

 private:
  Reap* reap_;
};

}  // namespace tare

#endif
