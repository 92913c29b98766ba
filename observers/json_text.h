// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// How every observer writes JSON. What is C here needs no C library.
//
// Paths and names may hold any byte. What is UTF-8 stays as it is. A byte that belongs to no
// character stands as \udcXX, the half of a pair that Python reads as that byte
// (`surrogateescape`), so the same path is read back.

#ifndef TARE_JSON_TEXT_H
#define TARE_JSON_TEXT_H

#include <stddef.h>

enum { TARE_JSON_PIECE_BYTES = 8 };

// The bytes of the character that `text` begins with, of `length` at least 1; 0 where it begins
// with no UTF-8.
static inline size_t tare_utf8_length(const char* text, size_t length) {
  const unsigned char* const bytes = (const unsigned char*)text;
  const unsigned first = bytes[0];
  const size_t bytes_of_it = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (bytes_of_it > length) return 0;
  for (size_t at = 1; at < bytes_of_it; ++at)
    if ((bytes[at] & 0xc0) != 0x80) return 0;
  // Characters have one form each, none is half of a pair, and the last is U+10FFFF.
  if ((first == 0xe0 && bytes[1] < 0xa0) || (first == 0xed && bytes[1] >= 0xa0) ||
      (first == 0xf0 && bytes[1] < 0x90) || (first == 0xf4 && bytes[1] >= 0x90))
    return 0;
  return bytes_of_it;
}

// Puts the first character of `text`, of `length` at least 1, into `piece` as it stands between the
// quotes of a JSON string, ended by a zero. Returns how many bytes of `text` that is.
static inline size_t tare_json_piece(const char* text, size_t length,
                                     char piece[TARE_JSON_PIECE_BYTES]) {
  static const char digits[] = "0123456789abcdef";
  const unsigned byte = (unsigned char)text[0];
  const size_t taken = tare_utf8_length(text, length);
  size_t used = 0;
  if (taken == 0 || byte < 0x20 || byte == 0x7f) {
    piece[used++] = '\\';
    piece[used++] = 'u';
    piece[used++] = taken == 0 ? 'd' : '0';
    piece[used++] = taken == 0 ? 'c' : '0';
    piece[used++] = digits[byte >> 4];
    piece[used++] = digits[byte & 15];
  } else {
    if (byte == '"' || byte == '\\') piece[used++] = '\\';
    for (size_t at = 0; at < taken; ++at) piece[used++] = text[at];
  }
  piece[used] = '\0';
  return taken == 0 ? 1 : taken;
}

// Calls put(to, piece) for the pieces of `text` as a JSON string, the quotes among them.
static inline void tare_json_string(const char* text, size_t length,
                                    void (*put)(void* to, const char* piece), void* to) {
  put(to, "\"");
  while (length != 0) {
    char piece[TARE_JSON_PIECE_BYTES];
    const size_t taken = tare_json_piece(text, length, piece);
    put(to, piece);
    text += taken;
    length -= taken;
  }
  put(to, "\"");
}

#ifdef __cplusplus

#include <concepts>
#include <string>
#include <string_view>

namespace tare {

// A document of JSON, in the order in which it is told.
class Json {
 public:
  Json& Begin(char bracket) {
    Separate();
    text_ += bracket;
    is_first_ = true;
    return *this;
  }
  Json& End(char bracket) {
    text_ += bracket;
    is_first_ = false;
    return *this;
  }
  Json& Name(std::string_view name) {
    Value(name);
    text_ += ": ";
    is_first_ = true;
    return *this;
  }
  Json& Value(std::string_view text) {
    Separate();
    const auto put = [](void* to, const char* piece) { *static_cast<std::string*>(to) += piece; };
    tare_json_string(text.data(), text.size(), put, &text_);
    return *this;
  }
  Json& Value(std::integral auto number) {
    Separate();
    if constexpr (std::same_as<decltype(number), bool>)
      text_ += number ? "true" : "false";
    else
      text_ += std::to_string(number);
    return *this;
  }
  Json& Member(std::string_view name, auto value) { return Name(name).Value(value); }

  const std::string& Text() const { return text_; }

 private:
  void Separate() {
    if (!is_first_) text_ += ", ";
    is_first_ = false;
  }

  std::string text_;
  bool is_first_ = true;
};

}  // namespace tare

#endif

#endif
