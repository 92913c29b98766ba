// The rules by which walks unwind, by address.

#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rule.hpp"
#include "tables.hpp"
#include "tare/platform/frames.hpp"
#include "tare/platform/loaded_objects.hpp"
#include "tare/platform/maps.hpp"

namespace tare::recorder {

// Code that no exception tables tell of.
inline bool IsReturnFromSignal(std::uintptr_t call) {
  if (platform::kReturnSlot != 0) return false;
  platform::MapsReader maps;
  for (platform::MapsRow row; maps.Next(row);)
    if (row.Contains(call))
      return row.readable && platform::ReturnsFromSignal(reinterpret_cast<const void*>(call));
  return false;
}

// Of the function that `call` returns to.
inline Rule ReadRuleOf(std::uintptr_t call) {
  Rule rule{};
  platform::LoadedObject object;
  // The call is before the return address, which can be another function's.
  const std::uintptr_t place = call - 1;
  if (platform::FindLoadedObject(place, object) && object.exception_frames != nullptr)
    rule = dwarf::ReadRule(static_cast<const dwarf::SearchTable*>(object.exception_frames), place);
  if (rule.step == Step::kUnknown && IsReturnFromSignal(call)) rule = kSignalRule;
  return rule;
}

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
    const Rule rule = ReadRuleOf(call);
    const auto word = std::bit_cast<std::uint64_t>(rule);
    entry.rule.store(word, std::memory_order_relaxed);
    entry.mixed.store(word ^ call, std::memory_order_relaxed);
    return rule;
  }

  Entry entries_[kEntries];
};

}  // namespace tare::recorder
