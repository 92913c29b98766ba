// Reads how frames are left from the tables that the compiler wrote for exceptions (.eh_frame).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "instructions.hpp"
#include "reader.hpp"
#include "rule.hpp"
#include "tare/platform/frames.hpp"

namespace tare::recorder::dwarf {

inline bool ReadCommon(const std::uint8_t* cie, Common& common) {
  std::uint32_t length;
  memcpy(&length, cie, sizeof length);
  Reader reader(cie + 8, cie + 4 + length);
  reader.Byte();  // version
  const auto* augmentation = reinterpret_cast<const char*>(reader.at());
  reader.Skip(strlen(augmentation) + 1);
  common.code_alignment = reader.Unsigned();
  common.data_alignment = reader.Signed();
  if (reader.Unsigned() != kReturnAddress) return false;
  common.has_augmentation = *augmentation == 'z';
  if (common.has_augmentation) {
    Reader data = TakeBlock(reader);
    while (*++augmentation != '\0') {
      switch (*augmentation) {
        case 'R':
          common.encoding = data.Byte();
          break;
        case 'L':
          data.Byte();
          break;
        case 'P':
          data.Skip(EncodedBytes(data.Byte()));
          break;
        case 'S':
          common.is_signal = true;
          break;
        case 'B':  // on AArch64, by what key return addresses are signed
          break;
        default:
          return false;
      }
    }
  } else if (*augmentation != '\0') {
    return false;
  }
  common.instructions = reader;
  return true;
}

// The header of the search table, as linkers write it; see .eh_frame_hdr in the LSB.
struct SearchTable {
  std::uint8_t version, frame_encoding, count_encoding, table_encoding;
  std::int32_t frame;
  std::uint32_t count;
  struct Entry {
    std::int32_t function, description;  // from the start of this table
  };
  const Entry& At(std::uint32_t number) const {
    return reinterpret_cast<const Entry*>(this + 1)[number];
  }
};

// The description of the function that holds `place`, and where the function starts.
inline const std::uint8_t* FindDescription(const SearchTable* table, std::uintptr_t place,
                                           std::uintptr_t& function) {
  constexpr std::uint8_t kUnsigned32 = 0x03, kRelative32 = 0x3b;
  if (table->version != 1 || table->count_encoding != kUnsigned32 ||
      table->table_encoding != kRelative32 || table->count == 0)
    return nullptr;
  const auto base = reinterpret_cast<std::uintptr_t>(table);
  const auto start = [&](std::uint32_t number) {
    return base + static_cast<std::uintptr_t>(std::int64_t{table->At(number).function});
  };
  std::uint32_t low = 0, high = table->count;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (start(middle) <= place ? low : high) = middle;
  }
  function = start(low);
  if (function > place) return nullptr;
  return reinterpret_cast<const std::uint8_t*>(
      base + static_cast<std::uintptr_t>(std::int64_t{table->At(low).description}));
}

inline Rule RuleOf(const State& state) {
  constexpr std::int64_t kWord = sizeof(std::uintptr_t);
  Rule rule{};
  if (state.is_outermost) {
    rule.step = Step::kOutermost;
    return rule;
  }
  if (state.is_unknown) return rule;
  if (state.cfa_through_frame)
    rule.step = Step::kThroughFrame;
  else if (state.cfa_register == kStackPointer)
    rule.step = Step::kFromStackPointer;
  else if (state.cfa_register == kFramePointer)
    rule.step = Step::kFromFrame;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"  // what does not fit is seen below
  rule.offset = state.cfa_offset / kWord;
  rule.saved = state.saved / kWord;
  rule.returned = state.returned / kWord;
#pragma GCC diagnostic pop
  rule.saved_frame = state.saved_frame;
  if (rule.offset * kWord != state.cfa_offset || rule.saved * kWord != state.saved ||
      rule.returned * kWord != state.returned)
    return {};
  return rule;
}

inline Rule ReadRule(const SearchTable* table, std::uintptr_t place) {
  std::uintptr_t function;
  const std::uint8_t* const description = FindDescription(table, place, function);
  if (description == nullptr) return {};
  std::uint32_t length;
  std::int32_t back;
  memcpy(&length, description, sizeof length);
  memcpy(&back, description + 4, sizeof back);
  Common common{1, 1, 0, false, false, {nullptr, nullptr}};
  if (!ReadCommon(description + 4 - back, common)) return {};
  const std::size_t pointer = EncodedBytes(common.encoding);
  Reader reader(description + 8, description + 4 + length);
  reader.Skip(pointer);
  std::uint64_t bytes = 0;
  memcpy(&bytes, reader.at(), pointer);
  reader.Skip(pointer);
  if (place - function >= bytes) return {};
  if (common.is_signal) return kSignalRule;
  if (common.has_augmentation) TakeBlock(reader);
  State initial{};
  initial.returned = platform::kReturnSlot * static_cast<std::int64_t>(sizeof(std::uintptr_t));
  if (!Follow(common.instructions, initial, initial, common, ~std::uint64_t{0})) return {};
  State state = initial;
  if (!Follow(reader, state, initial, common, place - function)) return {};
  return RuleOf(state);
}

}  // namespace tare::recorder::dwarf
