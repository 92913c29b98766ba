// The regions that are there at a moment of the recording, and which objects they hold.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../tables/writer.hpp"
#include "live.hpp"

namespace tare::recorder {

struct Region {
  std::uint64_t number = 0;  // in the trace, from 1 in the order in which they came
  std::uint64_t parent = 0;  // as the recorder numbers them; 0: none
  std::uint64_t first_child = 0, before = 0, after = 0;  // siblings
  std::uint64_t site = 0, created_nanoseconds = 0, created_bytes = 0, clears = 0;
  struct Member {
    std::uint64_t address, id;
  };
  std::vector<Member> members;  // and some that have died since
  std::size_t alive = 0;
};

struct Moment {
  std::uint64_t nanoseconds;
  std::uint64_t bytes;
};

// Regions by the recorder's numbers. One that was created before the recording is known from its
// first object on.
class Regions {
 public:
  explicit Regions(const std::filesystem::path& stem)
      : table_(stem.string() + ".regions", "regions",
               "region parent site created_nanoseconds created_bytes destroyed_nanoseconds "
               "destroyed_bytes clears") {}

  void Create(std::uint64_t name, std::uint64_t parent, const Moment& now, std::uint32_t site) {
    const bool is_known = regions_.contains(name);
    Region& region = At(name);
    region.site = site;
    region.created_nanoseconds = now.nanoseconds;
    region.created_bytes = now.bytes;
    if (parent == 0 || parent == name || is_known) return;
    Region& outer = At(parent);
    region.parent = parent;
    region.after = std::exchange(outer.first_child, name);
    if (region.after != 0) At(region.after).before = name;
  }

  // The number of the region in the trace.
  std::uint64_t Add(std::uint64_t name, const LiveObject& object, LiveObjects& live) {
    Region& region = At(name);
    if (region.members.size() >= kFewMembers && region.members.size() > 2 * region.alive)
      std::erase_if(region.members, [&](const Region::Member& member) {
        const LiveObject* const found = live.Find(member.address);
        return found == nullptr || found->id != member.id;
      });
    region.members.push_back({object.address, object.id});
    ++region.alive;
    return region.number;
  }

  void Remove(std::uint64_t name) {
    const auto found = regions_.find(name);
    if (found != regions_.end() && found->second.alive != 0) --found->second.alive;
  }

  // Calls `die` for each object of the region, after those of the regions inside, which go.
  template <typename Die>
  void Clear(std::uint64_t name, const Moment& now, const Die& die) {
    const auto found = regions_.find(name);
    if (found == regions_.end()) return;
    Region& region = found->second;
    ++region.clears;
    while (region.first_child != 0) Destroy(Innermost(region.first_child), now, die);
    DieOut(region, die);
  }

  template <typename Die>
  void Destroy(std::uint64_t name, const Moment& now, const Die& die) {
    const auto found = regions_.find(name);
    if (found == regions_.end()) return;
    Region& region = found->second;
    while (region.first_child != 0) Destroy(Innermost(region.first_child), now, die);
    DieOut(region, die);
    Unlink(region);
    Write(region, now);
    regions_.erase(name);
  }

  // What they hold is not known any more.
  void Forget() {
    for (auto& [name, region] : regions_) {
      region.members = {};
      region.alive = 0;
    }
  }

  void Finish() {
    for (const auto& [name, region] : regions_) Write(region, {0, 0});
    table_.Finish();
  }

 private:
  static constexpr std::size_t kFewMembers = 64;

  Region& At(std::uint64_t name) {
    Region& region = regions_[name];
    if (region.number == 0) region.number = ++count_;
    return region;
  }

  std::uint64_t Innermost(std::uint64_t name) {
    while (regions_[name].first_child != 0) name = regions_[name].first_child;
    return name;
  }

  template <typename Die>
  static void DieOut(Region& region, const Die& die) {
    const std::vector<Region::Member> members = std::exchange(region.members, {});
    for (const Region::Member& member : members) die(member);
    region.alive = 0;
  }

  void Unlink(Region& region) {
    if (region.before != 0)
      regions_[region.before].after = region.after;
    else if (region.parent != 0)
      regions_[region.parent].first_child = region.after;
    if (region.after != 0) regions_[region.after].before = region.before;
  }

  void Write(const Region& region, const Moment& end) {
    const auto outer = regions_.find(region.parent);
    table_.Add({region.number, outer != regions_.end() ? outer->second.number : 0, region.site,
                region.created_nanoseconds, region.created_bytes, end.nanoseconds, end.bytes,
                region.clears});
  }

  TableWriter<8> table_;
  std::unordered_map<std::uint64_t, Region> regions_;
  std::uint64_t count_ = 0;
};

}  // namespace tare::recorder
