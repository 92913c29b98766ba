// Leads the calls that a loaded object makes of functions of others elsewhere, by its tables.

#pragma once

#include <link.h>

#include <cstddef>
#include <cstring>

#include "call_slots.hpp"

namespace tare::regions {

struct PatchedCall {
  const char* symbol;
  void* function;
};

class CallPatcher {
 public:
  template <std::size_t kCount>
  CallPatcher(const dl_phdr_info& object, const PatchedCall (&calls)[kCount])
      : slots_(object), calls_(calls), count_(kCount) {}

  // How many places were patched.
  unsigned Patch() const {
    unsigned patched = 0;
    slots_.ForEach([&](const CallSlot& slot) {
      if (slot.kind == SlotKind::kInData) return;
      void* const function = FunctionFor(slot.symbol);
      if (function != nullptr &&
          CallSlots::Write(slot.place, function, slots_.IsSealed(slot.place)))
        ++patched;
    });
    return patched;
  }

 private:
  void* FunctionFor(const char* symbol) const {
    for (std::size_t i = 0; i < count_; ++i)
      if (strcmp(symbol, calls_[i].symbol) == 0) return calls_[i].function;
    return nullptr;
  }

  const CallSlots slots_;
  const PatchedCall* calls_;
  std::size_t count_;
};

}  // namespace tare::regions
