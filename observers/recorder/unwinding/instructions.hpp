// What a function's unwinding instructions say of its frame at some place in it.

#pragma once

#include <cstdint>

#include "reader.hpp"
#include "rule.hpp"
#include "tare/platform/frames.hpp"

namespace tare::recorder::dwarf {

using enum platform::DwarfRegister;

// What is known of a frame while the instructions of its function are followed.
struct State {
  std::uint64_t cfa_register;
  std::int64_t cfa_offset;
  bool cfa_through_frame;
  bool is_unknown;
  bool is_outermost;
  SavedFrame saved_frame;
  std::int64_t saved;
  std::int64_t returned;
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

// Follows `reader` up to `target`, counted from the function's start. False for what is not
// understood.
inline bool Follow(Reader reader, State& state, const State& initial, const Common& common,
                   std::uint64_t target) {
  constexpr int kDeepest = 16;
  State remembered[kDeepest];
  int depth = 0;
  std::uint64_t place = 0;
  const auto save = [&](std::uint64_t which, SavedFrame how, std::int64_t where) {
    if (which == kReturnAddress) {
      state.returned = where;
      state.is_unknown |= how == SavedFrame::kAtFrame;
    }
    if (which != kFramePointer) return;
    state.saved_frame = how;
    state.saved = where;
  };
  const auto restore = [&](std::uint64_t which) {
    if (which == kReturnAddress) state.returned = initial.returned;
    if (which == kFramePointer) save(which, initial.saved_frame, initial.saved);
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
        restore(low);
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
        restore(reader.Unsigned());
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
        if (which == kFramePointer || which == kReturnAddress) state.is_unknown = true;
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
        if (const Reader block = TakeBlock(reader);
            which == kFramePointer || which == kReturnAddress) {
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
        if (which == kFramePointer || which == kReturnAddress) state.is_unknown = true;
        break;
      case 0x16:  // val_expression
        which = reader.Unsigned();
        TakeBlock(reader);
        if (which == kFramePointer || which == kReturnAddress) state.is_unknown = true;
        break;
      case 0x2d:
        break;  // AARCH64_negate_ra_state: it is signed, or not any more
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

}  // namespace tare::recorder::dwarf
