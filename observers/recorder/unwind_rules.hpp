// How to get from a frame to the frame that called it, for a place in the code: read from the
// tables that the compiler wrote for exceptions (.eh_frame), and kept by address.

#pragma once

#include <dlfcn.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "process.hpp"

namespace tare::recorder {

// The canonical frame address (CFA) is the stack pointer behind the return address.
enum class Step : std::uint8_t {
  kUnknown,           // no rule that is understood
  kOutermost,         // there is no caller
  kFromStackPointer,  // CFA = stack pointer + offset
  kFromFrame,         // CFA = frame pointer + offset
  kThroughFrame,      // CFA = word at frame pointer + offset: a stack that was aligned anew
  kSignal,            // a handler's frame: the kernel has the registers on the stack
};
enum class SavedFrame : std::uint8_t { kNotSaved, kBelowCfa, kAtFrame };

struct Rule {
  std::int32_t offset;
  std::int16_t saved;  // of the caller's frame pointer, in words from the CFA or the frame pointer
  Step step;
  SavedFrame saved_frame;
};
static_assert(sizeof(Rule) == 8);

namespace dwarf {

enum Register : std::uint64_t { kFramePointer = 6, kStackPointer = 7, kReturnAddress = 16 };

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

// What is known of a frame while the instructions of its function are followed.
struct State {
  std::uint64_t cfa_register;
  std::int64_t cfa_offset;
  bool cfa_through_frame;
  bool is_unknown;
  bool is_outermost;
  SavedFrame saved_frame;
  std::int64_t saved;
};

struct Common {  // of a CIE
  std::uint64_t code_alignment;
  std::int64_t data_alignment;
  std::uint8_t encoding;
  bool has_augmentation;
  bool is_signal;
  Reader instructions;
};

// The two expressions that compilers write where a function aligns its stack anew: the word at, or
// the address of, frame pointer + offset.
inline bool IsFrameExpression(Reader expression, bool through, std::int64_t& offset) {
  constexpr std::uint8_t kFrameBase = 0x70 + kFramePointer, kDereference = 0x06;
  if (expression.Byte() != kFrameBase) return false;
  offset = expression.Signed();
  return (!through || expression.Byte() == kDereference) && !expression.HasMore();
}

inline Reader TakeBlock(Reader& reader) {
  const std::uint64_t bytes = reader.Unsigned();
  const std::uint8_t* const begin = reader.at();
  reader.Skip(bytes);
  return {begin, reader.at()};
}

// Follows `reader` up to `target`, counted from the function's start. False for what is not
// understood.
inline bool Follow(Reader reader, State& state, const State& initial, const Common& common,
                   std::uint64_t target) {
  constexpr int kDeepest = 16;
  State remembered[kDeepest];
  int depth = 0;
  std::uint64_t place = 0;
  const auto save = [&](std::uint64_t which, SavedFrame how, std::int64_t where) {
    if (which != kFramePointer) return;
    state.saved_frame = how;
    state.saved = where;
  };
  while (reader.HasMore()) {
    const std::uint8_t code = reader.Byte();
    const std::uint8_t low = code & 0x3f;
    switch (code >> 6) {
      case 1:  // advance_loc
        if ((place += low * common.code_alignment) > target) return true;
        continue;
      case 2:  // offset
        save(low, SavedFrame::kBelowCfa,
             static_cast<std::int64_t>(reader.Unsigned()) * common.data_alignment);
        continue;
      case 3:  // restore
        save(low, initial.saved_frame, initial.saved);
        continue;
      default:
        break;
    }
    std::uint64_t which = 0;
    std::int64_t offset = 0;
    switch (code) {
      case 0x00:
        break;  // nop
      case 0x02:
        place += reader.Byte() * common.code_alignment;
        break;
      case 0x03:
        place += reader.Fixed<std::uint16_t>() * common.code_alignment;
        break;
      case 0x04:
        place += reader.Fixed<std::uint32_t>() * common.code_alignment;
        break;
      case 0x05:  // offset_extended
        which = reader.Unsigned();
        save(which, SavedFrame::kBelowCfa,
             static_cast<std::int64_t>(reader.Unsigned()) * common.data_alignment);
        break;
      case 0x06:  // restore_extended
        save(reader.Unsigned(), initial.saved_frame, initial.saved);
        break;
      case 0x07:  // undefined
        if (reader.Unsigned() == kReturnAddress) state.is_outermost = true;
        break;
      case 0x08:
        save(reader.Unsigned(), SavedFrame::kNotSaved, 0);
        break;    // same_value
      case 0x09:  // register
        which = reader.Unsigned();
        reader.Unsigned();
        if (which == kFramePointer) state.is_unknown = true;
        break;
      case 0x0a:  // remember_state
        if (depth == kDeepest) return false;
        remembered[depth++] = state;
        break;
      case 0x0b:  // restore_state
        if (depth == 0) return false;
        state = remembered[--depth];
        break;
      case 0x0c:  // def_cfa
        state.cfa_register = reader.Unsigned();
        state.cfa_offset = static_cast<std::int64_t>(reader.Unsigned());
        state.cfa_through_frame = state.is_unknown = false;
        break;
      case 0x0d:
        state.cfa_register = reader.Unsigned();
        break;  // def_cfa_register
      case 0x0e:
        state.cfa_offset = static_cast<std::int64_t>(reader.Unsigned());
        break;
      case 0x0f:  // def_cfa_expression
        state.cfa_through_frame = IsFrameExpression(TakeBlock(reader), true, state.cfa_offset);
        state.is_unknown = !state.cfa_through_frame;
        break;
      case 0x10:  // expression
        which = reader.Unsigned();
        if (const Reader block = TakeBlock(reader); which == kFramePointer) {
          if (IsFrameExpression(block, false, offset))
            save(which, SavedFrame::kAtFrame, offset);
          else
            state.is_unknown = true;
        }
        break;
      case 0x11:  // offset_extended_sf
        which = reader.Unsigned();
        save(which, SavedFrame::kBelowCfa, reader.Signed() * common.data_alignment);
        break;
      case 0x12:  // def_cfa_sf
        state.cfa_register = reader.Unsigned();
        state.cfa_offset = reader.Signed() * common.data_alignment;
        state.cfa_through_frame = state.is_unknown = false;
        break;
      case 0x13:
        state.cfa_offset = reader.Signed() * common.data_alignment;
        break;
      case 0x14:  // val_offset
        which = reader.Unsigned();
        reader.Unsigned();
        if (which == kFramePointer) state.is_unknown = true;
        break;
      case 0x16:  // val_expression
        which = reader.Unsigned();
        TakeBlock(reader);
        if (which == kFramePointer) state.is_unknown = true;
        break;
      case 0x2e:
        reader.Unsigned();
        break;  // GNU_args_size
      default:
        return false;
    }
    if (place > target) return true;
  }
  return true;
}

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
  rule.offset = static_cast<std::int32_t>(state.cfa_offset);
  rule.saved = static_cast<std::int16_t>(state.saved / 8);
  rule.saved_frame = state.saved_frame;
  if (rule.offset != state.cfa_offset || rule.saved * 8 != state.saved) return {};
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
  if (common.is_signal) return {0, 0, Step::kSignal, SavedFrame::kNotSaved};
  if (common.has_augmentation) TakeBlock(reader);
  State initial{};
  if (!Follow(common.instructions, initial, initial, common, ~std::uint64_t{0})) return {};
  State state = initial;
  if (!Follow(reader, state, initial, common, place - function)) return {};
  return RuleOf(state);
}

}  // namespace dwarf

// Rules by return address. Each entry is two words, of which one is mixed with the other: a reader
// that sees halves of two writes sees none.
class RuleCache {
 public:
  Rule Get(std::uintptr_t call) {
    Entry& entry = entries_[(call ^ (call >> 16)) % kEntries];
    const std::uint64_t rule = entry.rule.load(std::memory_order_relaxed);
    if ((entry.mixed.load(std::memory_order_relaxed) ^ rule) == call) [[likely]]
      return std::bit_cast<Rule>(rule);
    return Read(call, entry);
  }

 private:
  struct Entry {
    std::atomic<std::uint64_t> mixed, rule;
  };
  static constexpr std::size_t kEntries = 1 << 16;

  __attribute__((noinline)) Rule Read(std::uintptr_t call, Entry& entry) {
    Rule rule{};
    dl_find_object object{};
    // The call is before the return address, which can be another function's.
    const std::uintptr_t place = call - 1;
    if (_dl_find_object(reinterpret_cast<void*>(place), &object) == 0 &&
        object.dlfo_eh_frame != nullptr)
      rule = dwarf::ReadRule(static_cast<const dwarf::SearchTable*>(object.dlfo_eh_frame), place);
    const auto word = std::bit_cast<std::uint64_t>(rule);
    entry.rule.store(word, std::memory_order_relaxed);
    entry.mixed.store(word ^ call, std::memory_order_relaxed);
    return rule;
  }

  Entry entries_[kEntries];
};

}  // namespace tare::recorder
