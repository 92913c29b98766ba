// Numbers as DWARF writes them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tare::recorder::dwarf {

class Reader {
 public:
  Reader(const void* at, const void* end)
      : at_(static_cast<const std::uint8_t*>(at)), end_(static_cast<const std::uint8_t*>(end)) {}

  bool HasMore() const { return at_ < end_; }
  const std::uint8_t* at() const { return at_; }
  void Skip(std::uint64_t bytes) {
    at_ = bytes < static_cast<std::uint64_t>(end_ - at_) ? at_ + bytes : end_;
  }

  template <typename T>
  T Fixed() {
    T value{};
    if (static_cast<std::size_t>(end_ - at_) >= sizeof value) memcpy(&value, at_, sizeof value);
    Skip(sizeof value);
    return value;
  }
  std::uint8_t Byte() { return Fixed<std::uint8_t>(); }

  std::uint64_t Unsigned() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; HasMore(); shift += 7) {
      const std::uint8_t byte = *at_++;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    return value;
  }

  std::int64_t Signed() {
    std::uint64_t value = 0;
    unsigned shift = 0;
    std::uint8_t byte = 0;
    do {
      byte = HasMore() ? *at_++ : 0;
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 127) << shift;
      shift += 7;
    } while (byte >= 128);
    if (shift < 64 && (byte & 64) != 0) value |= ~std::uint64_t{0} << shift;
    return static_cast<std::int64_t>(value);
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

inline constexpr std::uint8_t kSizeMask = 7, kIsOmitted = 0xff;
inline constexpr std::size_t EncodedBytes(std::uint8_t encoding) {
  switch (encoding & kSizeMask) {
    case 2:
      return 2;
    case 3:
      return 4;
    default:
      return 8;
  }
}

inline Reader TakeBlock(Reader& reader) {
  const std::uint64_t bytes = reader.Unsigned();
  const std::uint8_t* const begin = reader.at();
  reader.Skip(bytes);
  return {begin, reader.at()};
}

}  // namespace tare::recorder::dwarf
