// Where pointers into the heap may lie: the stack and the registers of each thread, thread-local
// storage, static data of each module, and every other private mapping that is not the allocator's
// own. docs/marksweep.md says what is not found.
//
// The allocator's pages are told from the program's by who called mmap. Where the allocator does
// not call the layer's mmap (glibc does not), they are those parts of a mapping that hold objects,
// less what is known to be the program's.

#pragma once

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "maps.hpp"
#include "marker.hpp"
#include "metadata.hpp"
#include "process.hpp"
#include "tare/platform/glibc.hpp"
#include "tare/platform/thread_storage.h"
#include "world.hpp"

namespace tare {

// A part of a mapping that is the program's for sure: static data, or a stack, of which the part
// in use is a root already.
struct Zone {
  Address from, to;
  bool is_root;
};

// Words that only the kernel holds, as kernel.cpp keeps them.
Span KernelHeld();

class Roots {
 public:
  // While there still is memory: a collection may be wanted once there is none.
  void MapLists() {
    mappings_.MapList();
    static_data_.Map();
    zones_.Map();
    found_.Map();
    storage_ = tare_find_thread_storage();
  }

  // Before the world is stopped: a stopped thread may hold the linker's lock.
  void FindStaticData() {
    Modules modules{this, 0, 0};
    const auto loaded = loaded_;
    dl_iterate_phdr(AddModule, &modules);
    if (loaded != loaded_) dl_iterate_phdr(tare_widen_thread_storage, &storage_);
  }

  // False when the state of memory cannot be read.
  bool Find(const StackInUse& own) {
    found_.Clear();
    zones_.Clear();
    bytes_ = 0;
    good_ = has_static_data_;
    if (!good_ || !mappings_.Read()) return false;
    PresentPages present;
    AddStack(own, present);
    for (const Parked* each = world.parked.Last(); each != nullptr; each = each->next)
      AddStack(each->in_use, present);
    for (const Span& each : static_data_) good_ &= zones_.Add({each.from, each.to, true});
    SeparateZones();
    for (const Mapping& mapping : mappings_) AddMapping(mapping, present);
    const Span kernel_held = KernelHeld();
    Add(kernel_held.from, kernel_held.to);
    return good_;
  }

  // For a mapping that was there when the program began: it is the program's, even if the kernel
  // later makes it one with the allocator's.
  void ClaimFirstMappings() {
    if (!mappings_.Read()) return;
    const auto heap_end = static_cast<Address>(syscall(SYS_brk, 0));
    for (const Mapping& each : mappings_)
      if (each.writable && !each.of_file && !IsMainStack(each) &&
          (each.from >= heap_end || each.to < heap_end))
        EachUnowned(each.from, each.to, [](Address from, Address to) {
          if (!metadata.HasObjects(from, to)) ranges.Assign(from, to, Owner::kProgram);
        });
  }

  // The lists of free memory of the C library's allocator: from them pointers lead to what lies
  // beside that. They are known by their form, because each one that is empty points to itself.
  void LeaveOutAllocator() {
    if (!process.inner_is_glibc) return;
    constexpr std::size_t kListBytes = 2 * sizeof(Address), kLeast = 64;
    for (const Span& each : static_data_) {
      if (each.from < process.inner_from || each.to > process.inner_to) continue;
      std::size_t empty = 0;
      for (Address list = (each.from + 7) & ~Address{7}; list + kListBytes <= each.to;) {
        const auto* const links = reinterpret_cast<const Address*>(list);
        const bool is_empty = links[0] == list - kListBytes && links[1] == list - kListBytes;
        empty = is_empty ? empty + 1 : 0;
        list += is_empty ? kListBytes : sizeof(Address);
        if (empty < kLeast) continue;
        // The lists of the largest sizes are empty, and end the array.
        while (list + kListBytes <= each.to &&
               *reinterpret_cast<const Address*>(list) == list - kListBytes)
          list += kListBytes;
        ranges.Assign(list - platform::kFreeLists * kListBytes - platform::kBeforeFreeLists, list,
                      Owner::kAllocator);
        return;
      }
    }
  }

  OwnArray<Span>& Found() { return found_; }
  std::size_t Bytes() const { return bytes_; }

 private:
  struct Modules {
    Roots* roots;
    unsigned long long loaded, unloaded;
  };

  static int AddModule(dl_phdr_info* information, std::size_t, void* argument) {
    auto& modules = *static_cast<Modules*>(argument);
    Roots& roots = *modules.roots;
    if (modules.loaded == 0) {
      if (roots.has_static_data_ && information->dlpi_adds == roots.loaded_ &&
          information->dlpi_subs == roots.unloaded_)
        return 1;
      roots.static_data_.Clear();
      roots.has_static_data_ = true;
    }
    modules.loaded = roots.loaded_ = information->dlpi_adds;
    modules.unloaded = roots.unloaded_ = information->dlpi_subs;
    for (int i = 0; i < information->dlpi_phnum; ++i) {
      const auto& segment = information->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) == 0) continue;
      const Address from = information->dlpi_addr + segment.p_vaddr;
      roots.has_static_data_ &= roots.static_data_.Add({from, from + segment.p_memsz});
    }
    return 0;
  }

  // The kernel has put random bytes onto the first stack.
  static bool IsMainStack(const Mapping& mapping) {
    const Address on_it = getauxval(AT_RANDOM);
    return mapping.from <= on_it && on_it < mapping.to;
  }

  // The part of a stack that is in use is searched, the part below it is not.
  void AddStack(const StackInUse& in_use, PresentPages& present) {
    const Mapping* const home = mappings_.Of(in_use.thread_pointer);
    const Address top =
        home == nullptr ? 0 : std::min(PageUp(in_use.thread_pointer + storage_.above), home->to);
    bool at_home = false;
    for (const Address at : {in_use.stack, in_use.interrupted}) {
      const Mapping* const mapping = mappings_.Of(at);
      if (mapping == nullptr) continue;
      const bool main = IsMainStack(*mapping);
      if (main || (mapping == home && at < in_use.thread_pointer)) {
        at_home = true;
        const bool guarded = !main && process.has_guards;
        const Address end = guarded ? present.BehindGuard(mapping->from, at) : mapping->from;
        good_ &= zones_.Add({end, main ? mapping->to : top, false});
        AddStack(at, main ? mapping->to : top, present);
      } else if (metadata.Find(at).start == 0) {
        AddStack(at, mapping->to, present);  // of a coroutine or of a signal handler
      }
    }
    // So that an object which serves as a stack is found.
    const auto record = reinterpret_cast<Address>(&in_use);
    Add(record, record + sizeof in_use);
    if (home == nullptr) return;
    if (!at_home) AddPages({home->from, top}, true, present);
    // Also when the thread is gone and its stack is kept by the library for another.
    ranges.Assign(PageDown(in_use.thread_pointer - storage_.record_below), top, Owner::kProgram);
  }

  void AddStack(Address from, Address to, PresentPages& present) {
    if (process.has_guards) return AddPages({from, to}, true, present);
    Add(from, to);
  }

  void SeparateZones() {
    std::sort(zones_.begin(), zones_.end(),
              [](const Zone& a, const Zone& b) { return a.from < b.from; });
    Address done = 0;
    std::size_t kept = 0;
    for (Zone zone : zones_) {
      zone.from = std::max(zone.from, done);
      if (zone.from >= zone.to) continue;
      done = zone.to;
      zones_[kept++] = zone;
    }
    zones_.Shorten(kept);
  }

  void AddMapping(const Mapping& mapping, PresentPages& present) {
    if (!mapping.readable) return;
    Address from = mapping.from;
    EachUnowned(mapping.from, mapping.to, [&](Address unowned, Address end) {
      AddOwned({from, unowned}, mapping, present);
      AddUnowned({unowned, end}, mapping, present);
      from = end;
    });
    AddOwned({from, mapping.to}, mapping, present);
  }

  void AddOwned(Span span, const Mapping& mapping, PresentPages& present) {
    while (span.from < span.to) {
      const Ranges::Range* const range = ranges.FirstEndingAfter(span.from);
      const Address end = std::min(range->to, span.to);
      if (range->owner == Owner::kProgram) AddPages({span.from, end}, mapping.of_file, present);
      span.from = end;
    }
  }

  void AddUnowned(Span span, const Mapping& mapping, PresentPages& present) {
    while (span.from < span.to) {
      const Zone* const zone =
          std::upper_bound(zones_.begin(), zones_.end(), span.from,
                           [](Address at, const Zone& each) { return at < each.to; });
      const Address begin =
          zone == zones_.end() ? span.to : std::clamp(zone->from, span.from, span.to);
      const Span before{span.from, begin};
      if (mapping.writable && !metadata.HasObjects(before.from, before.to))
        AddPages(before, mapping.of_file, present);
      if (begin == span.to) return;
      const Span inside{begin, std::min(zone->to, span.to)};
      if (zone->is_root) AddPages(inside, mapping.of_file, present);
      span.from = inside.to;
    }
  }

  // A few pages are searched sooner than the kernel can be asked about them; but one of a file can
  // lie beyond the file's end.
  void AddPages(Span span, bool ask, PresentPages& present) {
    constexpr std::size_t kFew = 16 * kPageBytes;
    ask |= process.has_guards;
    if (!ask && span.to - span.from < kFew) return Add(span.from, span.to);
    if (span.from < span.to)
      present.Each(span.from, span.to, [&](Address from, Address to) { Add(from, to); });
  }

  template <typename Visit>
  static void EachUnowned(Address from, Address to, Visit visit) {
    while (from < to) {
      const Ranges::Range* const range = ranges.FirstEndingAfter(from);
      const bool last = range == ranges.End() || range->from >= to;
      const Address end = last ? to : range->from;
      const Address next = last ? to : range->to;
      if (end > from) visit(from, end);
      from = next;
    }
  }

  void Add(Address from, Address to) {
    const Address below = Marker::step - 1;
    from = (from + below) & ~below;
    to &= ~below;
    if (from >= to) return;
    bytes_ += to - from;
    good_ &= found_.Add({from, to});
  }

  Mappings mappings_;
  OwnArray<Span> static_data_;
  OwnArray<Zone> zones_;
  OwnArray<Span> found_;
  tare_thread_storage storage_{};
  unsigned long long loaded_ = 0, unloaded_ = 0;
  std::size_t bytes_ = 0;
  bool has_static_data_ = false;
  bool good_ = true;  // of this collection
};

}  // namespace tare
