// A list of freed objects for each class of sizes; objects are never split or joined. What is
// above the largest class is a matter of the layer below.

#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "tare/layers/concepts.hpp"

namespace tare::layers {

// Classes of 2^kFirst bytes up to 2^kLast.
template <std::size_t kFirst, std::size_t kLast>
struct PowersOfTwo {
  static constexpr std::size_t kCount = kLast - kFirst + 1;
  static constexpr std::size_t ClassOf(std::size_t bytes) {
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - (bytes != 0)));
    return power <= kFirst ? 0 : power - kFirst;
  }
  static constexpr std::size_t BytesOf(std::size_t number) {
    return std::size_t{1} << (number + kFirst);
  }
};

// Classes of kStep, 2 kStep, … kCount kStep bytes.
template <std::size_t kStep, std::size_t kSteps>
struct Multiples {
  static constexpr std::size_t kCount = kSteps;
  static constexpr std::size_t ClassOf(std::size_t bytes) {
    return bytes == 0 ? 0 : (bytes - 1) / kStep;
  }
  static constexpr std::size_t BytesOf(std::size_t number) { return (number + 1) * kStep; }
};

// Multiples of kStep up to kSteps of them, then powers of two up to 2^kLast.
template <std::size_t kStep, std::size_t kSteps, std::size_t kLast>
struct MultiplesThenPowers {
  using Small = Multiples<kStep, kSteps>;
  static constexpr std::size_t kFirst = std::bit_width(kStep * kSteps);
  using Large = PowersOfTwo<kFirst, kLast>;
  static constexpr std::size_t kCount = kSteps + Large::kCount;
  static constexpr std::size_t ClassOf(std::size_t bytes) {
    return bytes <= kStep * kSteps ? Small::ClassOf(bytes) : kSteps + Large::ClassOf(bytes);
  }
  static constexpr std::size_t BytesOf(std::size_t number) {
    return number < kSteps ? Small::BytesOf(number) : Large::BytesOf(number - kSteps);
  }
};

// Each class larger than the one before by a factor of kRatio / 100, rounded up to the alignment,
// and the last of kLargest bytes.
template <std::size_t kRatio, std::size_t kLargest>
struct Exponential {
  static_assert(kRatio > 100 && kLargest % kAlignment == 0);
  static constexpr std::size_t Next(std::size_t bytes) {
    return std::min(RoundUp(std::max(bytes + 1, bytes * kRatio / 100), kAlignment), kLargest);
  }
  static constexpr std::size_t kCount = [] {
    std::size_t count = 1;
    for (std::size_t bytes = kAlignment; bytes < kLargest; bytes = Next(bytes)) ++count;
    return count;
  }();
  static constexpr auto kSizes = [] {
    std::array<std::size_t, kCount> sizes = {kAlignment};
    for (std::size_t i = 1; i < kCount; ++i) sizes[i] = Next(sizes[i - 1]);
    return sizes;
  }();
  static constexpr auto kNumbers = [] {
    std::array<std::uint8_t, kSizes[kCount - 1] / kAlignment + 1> numbers = {};
    std::uint8_t number = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (i * kAlignment > kSizes[number]) ++number;
      numbers[i] = number;
    }
    return numbers;
  }();
  static constexpr std::size_t ClassOf(std::size_t bytes) {
    return kNumbers[(bytes + kAlignment - 1) / kAlignment];
  }
  static constexpr std::size_t BytesOf(std::size_t number) { return kSizes[number]; }
};

template <typename T>
concept ClassesOfSizes = requires(std::size_t number) {
  { T::kCount } -> std::convertible_to<std::size_t>;
  { T::ClassOf(number) } -> std::same_as<std::size_t>;
  { T::BytesOf(number) } -> std::same_as<std::size_t>;
};

template <ClassesOfSizes Classes, ObjectAllocator Super>
  requires Sized<Super>
class SizeClasses : public Super {
 public:
  static_assert(Classes::BytesOf(0) >= sizeof(void*),
                "a freed object must have room for a pointer");

  void* Allocate(std::size_t bytes) {
    if (bytes > kLargest) return Super::Allocate(bytes);
    const std::size_t number = Classes::ClassOf(bytes);
    void* const object = free_[number];
    if (object == nullptr) return Super::Allocate(Classes::BytesOf(number));
    free_[number] = *static_cast<void**>(object);
    return object;
  }

  void Free(void* object) {
    const std::size_t bytes = Super::Size(object);
    if (bytes <= kLargest) {
      void*& list = free_[Classes::ClassOf(bytes)];
      *static_cast<void**>(object) = list;
      list = object;
    } else if constexpr (Heap<Super>) {
      Super::Free(object);
    }
  }

  void Clear()
    requires Clearable<Super>
  {
    free_ = {};
    Super::Clear();
  }

 private:
  static constexpr std::size_t kLargest = Classes::BytesOf(Classes::kCount - 1);

  std::array<void*, Classes::kCount> free_ = {};
};

}  // namespace tare::layers
