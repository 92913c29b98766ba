// Names of Python code: keys that tell them apart by what they say, and the rows of the file
// PID.SERIAL.python.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "process.hpp"
#include "stacks.hpp"
#include "unwinding/memos.hpp"

namespace tare::recorder::python {

inline std::uint64_t Mixed(std::uint64_t key, std::uint64_t word) {
  const std::uint64_t product = (key ^ word) * 0x9E3779B97F4A7C15u;
  return product ^ product >> 29;
}

// Of their number, and of the first and the last of them.
inline std::uint64_t KeyOfBytes(std::uintptr_t start, std::size_t bytes) {
  constexpr std::size_t kAtEachEnd = 64;
  std::uint64_t key = bytes;
  const auto take = [&](std::size_t from, std::size_t to) {
    for (; from < to; from += sizeof key) {
      std::uint64_t word = 0;
      memcpy(&word, reinterpret_cast<const void*>(start + from),
             std::min(sizeof word, bytes - from));
      key = Mixed(key, word);
    }
  };
  take(0, std::min(bytes, kAtEachEnd));
  if (bytes > kAtEachEnd) take(std::max(kAtEachEnd, bytes - kAtEachEnd), bytes);
  return key;
}

struct CodeKeys {
  std::uint64_t names;  // of its function, file and first line; 0: not read
  std::uint64_t lines;  // of the lines of its instructions, too
};

// A string of CPython. What is in no form that names of code have reads as empty.
class Text {
 public:
  Text(std::uintptr_t string, std::size_t characters) {
    constexpr std::size_t kLength = 16, kState = 32, kOfOtherThanAscii = 16;
    constexpr unsigned kWidthShift = 2, kWidthMask = 7, kIsCompact = 1 << 5, kIsAscii = 1 << 6;
    const auto state = *reinterpret_cast<const std::uint32_t*>(string + kState);
    if ((state & kIsCompact) == 0) return;
    // Room for its UTF-8, which 3.11 has one more word for.
    const std::size_t more = characters == 48 ? kOfOtherThanAscii + 8 : kOfOtherThanAscii;
    start_ = string + characters + ((state & kIsAscii) != 0 ? 0 : more);
    width_ = state >> kWidthShift & kWidthMask;
    length_ = WordAt(string + kLength);
  }

  std::uint64_t Key() const { return KeyOfBytes(start_, length_ * width_); }

  // Calls put(byte) for the bytes in UTF-8. What a name of a file holds that is no UTF-8, which
  // Python keeps as half of a pair, becomes the byte that it was.
  template <typename Put>
  void EachByte(Put put) const {
    constexpr std::size_t kMostCharacters = 1000;
    for (std::size_t at = 0; at < std::min(length_, kMostCharacters); ++at) {
      const std::uint32_t c = Character(at);
      const auto part = [&](unsigned shift) { put(0x80 | (c >> shift & 0x3f)); };
      if (c >= 0xdc80 && c < 0xdd00) {
        put(c & 0xff);
      } else if (c < 0x80) {
        put(c);
      } else if (c < 0x800) {
        put(0xc0 | c >> 6), part(0);
      } else if (c < 0x10000) {
        put(0xe0 | c >> 12), part(6), part(0);
      } else {
        put(0xf0 | c >> 18), part(12), part(6), part(0);
      }
    }
  }

 private:
  std::uint32_t Character(std::size_t at) const {
    std::uint32_t character = 0;
    memcpy(&character, reinterpret_cast<const void*>(start_ + at * width_), width_);
    return character;
  }

  std::uintptr_t start_ = 0;
  std::size_t width_ = 0, length_ = 0;
};

// Adds to the file; what it holds ends with zeros.
class Row {
 public:
  explicit Row(Stacks& stacks) : stacks_(stacks) {}
  void Put(std::uint32_t byte) {
    if (stacks_.python_bytes % kPart == 0 && !NextPythonPart()) return;
    stacks_.python_part[stacks_.python_bytes++ % kPart] = static_cast<char>(byte);
  }
  void PutNumber(std::uint64_t number) {
    char digits[20];
    std::size_t count = 0;
    do digits[count++] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0) Put(static_cast<std::uint8_t>(digits[--count]));
    Put(' ');
  }
  void PutText(const Text& text) {
    std::size_t bytes = 0;
    text.EachByte([&](std::uint32_t) { ++bytes; });
    PutNumber(bytes);
    text.EachByte([&](std::uint32_t byte) { Put(byte); });
  }
  bool IsWhole() const { return is_whole_; }

 private:
  bool NextPythonPart() {
    if (stacks_.python_part != nullptr) munmap(stacks_.python_part, kPart);
    stacks_.python_part =
        static_cast<char*>(MapPart(FileOfProcess(".python").Text(), stacks_.python_bytes, kPart));
    is_whole_ = stacks_.python_part != nullptr;
    if (!is_whole_) Lose(kNoRoom);
    return is_whole_;
  }

  Stacks& stacks_;
  bool is_whole_ = true;
};

// A row for a call that has none yet. False where it cannot be written now.
inline bool NotePythonCall(Stacks& stacks, std::uint64_t call, std::uint32_t line, const Text& name,
                           const Text& file) {
  const LockStacks guard(stacks);
  if (guard.IsInterrupted()) return false;
  if (Find(stacks, kRowsOfPython, call) != 0) return true;
  const KeepErrno keep;
  Row row(stacks);
  row.PutNumber(call);
  row.PutNumber(line);
  row.PutText(name);
  row.Put(' ');
  row.PutText(file);
  row.Put('\n');
  if (!row.IsWhole()) return false;
  Know(stacks, kRowsOfPython, call, 1);
  return true;
}

}  // namespace tare::recorder::python
