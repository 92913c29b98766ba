// One step of a walk: from where a function called to where its caller did.

#pragma once

#include <cstddef>
#include <cstdint>

#include "rule.hpp"
#include "tare/platform/frames.hpp"
#include "tare/platform/maps.hpp"

namespace tare::recorder {

using platform::Caller;

inline std::uintptr_t WordAt(std::uintptr_t address) {
  return *reinterpret_cast<const std::uintptr_t*>(address);
}

// Addresses that can be read: a stack, or the part of one that lies in one mapping.
struct Range {
  std::uintptr_t start, end;

  bool Contains(std::uintptr_t address) const { return address - start < end - start; }
  bool HasWord(std::uintptr_t address) const {
    return address % sizeof address == 0 && Contains(address) &&
           Contains(address + sizeof address - 1);
  }
};

// The mapping that `address` lies in; empty where there is none.
inline Range MappingOf(std::uintptr_t address) {
  platform::MapsReader maps;
  for (platform::MapsRow row; maps.Next(row);)
    if (row.Contains(address)) return {row.start, row.end};
  return {0, 0};
}

// Where a walk is. `slot` is the word below the CFA of the callee, in which calls themselves put
// return addresses, if they do.
struct Place {
  std::uintptr_t slot;
  std::uintptr_t return_at;  // where the return address was found; 0: nowhere yet
  std::uintptr_t call;
  std::uintptr_t frame_pointer;
  std::uintptr_t link_at;  // of a function that a signal interrupted: where its register is

  static Place Of(const Caller& caller) {
    return {caller.stack_pointer - sizeof caller.call, 0, caller.call, caller.frame_pointer, 0};
  }
};

// What a step found: whether there is a caller; where its frame pointer was saved, if it was; and
// whether a return address does not tell the caller's place.
struct Stepped {
  bool is_there;
  std::uintptr_t saved_at;
  bool is_unsteady;
};

inline Stepped StepFromHandler(const Range& stack, std::uintptr_t context, Place& place) {
  constexpr Stepped kNone{false, 0, false};
  const std::uintptr_t frame = context + platform::kInterruptedFramePointer;
  const std::uintptr_t pointer = context + platform::kInterruptedStackPointer;
  const std::uintptr_t instruction = context + platform::kInterruptedInstruction;
  if (!stack.HasWord(frame) || !stack.HasWord(pointer) || !stack.HasWord(instruction)) return kNone;
  const std::uintptr_t stack_pointer = WordAt(pointer);
  if (stack_pointer <= context || !stack.HasWord(stack_pointer - sizeof stack_pointer))
    return kNone;
  // As if the interrupted instruction were a call.
  place = {
      .slot = stack_pointer - sizeof stack_pointer,
      .return_at = instruction,
      .call = WordAt(instruction) + 1,
      .frame_pointer = WordAt(frame),
      .link_at = platform::kInterruptedReturn == 0 ? 0 : context + platform::kInterruptedReturn};
  return {true, 0, true};
}

// From a frame of `stack` to its caller; none where the rule does not tell, or leads off it.
inline Stepped StepUp(const Range& stack, const Rule& rule, Place& place) {
  constexpr std::int64_t kWord = sizeof(std::uintptr_t);
  const std::uintptr_t stack_pointer = place.slot + sizeof place.slot;
  const auto offset = static_cast<std::uintptr_t>(rule.offset * kWord);
  Stepped stepped{false, 0, false};
  std::uintptr_t cfa;
  switch (rule.step) {
    case Step::kFromStackPointer:
      cfa = stack_pointer + offset;
      break;
    case Step::kFromFrame:
      cfa = place.frame_pointer + offset;
      break;
    case Step::kThroughFrame:
      if (!stack.HasWord(place.frame_pointer + offset)) return stepped;
      cfa = WordAt(place.frame_pointer + offset);
      stepped.is_unsteady = true;
      break;
    case Step::kSignal:
      return StepFromHandler(stack, stack_pointer, place);
    default:
      return stepped;
  }
  // Only an interrupted function can have no frame, and its return address in a register.
  const bool is_in_register = rule.returned == 0;
  if (is_in_register ? place.link_at == 0 || cfa < stack_pointer : cfa <= stack_pointer)
    return stepped;
  const std::uintptr_t return_at =
      is_in_register ? place.link_at : cfa + static_cast<std::uintptr_t>(rule.returned * kWord);
  if (!stack.HasWord(return_at) || !stack.HasWord(cfa - sizeof cfa)) return stepped;
  if (rule.saved_frame != SavedFrame::kNotSaved) {
    const auto distance = static_cast<std::uintptr_t>(rule.saved * kWord);
    const std::uintptr_t saved =
        (rule.saved_frame == SavedFrame::kBelowCfa ? cfa : place.frame_pointer) + distance;
    if (!stack.HasWord(saved)) return stepped;
    stepped.saved_at = saved;
    place.frame_pointer = WordAt(saved);
  }
  place.slot = cfa - sizeof cfa;
  place.return_at = return_at;
  place.call = WordAt(return_at) & platform::kAddressOfReturn;
  place.link_at = 0;
  stepped.is_there = true;
  return stepped;
}

}  // namespace tare::recorder
