#include "objects.hpp"

#include <time.h>

#include <cmath>
#include <iostream>
#include <map>

#include "../../tables/writer.hpp"
#include "changes.hpp"
#include "events.hpp"
#include "live.hpp"
#include "regions.hpp"
#include "system.hpp"
#include "tare/platform/counter.hpp"

namespace tare::recorder {
namespace {

// Operations in the order in which tare/heap_traces/trace.py has their names; 0 is not known.
enum FreeOperation : std::uint64_t { kByFree = 1, kByRealloc, kByRegion };

std::uint64_t OperationOf(std::uint8_t kind) {
  switch (kind) {
    case kCalloc:
      return 1;
    case kRealloc:
      return 2;
    case kAligned:
      return 3;
    case kNew:
    case kAlignedNew:
      return 4;
    case kOfRegion:
      return 5;
    default:
      return 0;
  }
}

// Nanoseconds since the start of the recording from ticks of its clock.
class Clock {
 public:
  Clock(const Header& header, const Events& events) : start_(header.start_ticks) {
    std::uint64_t ticks = events.last_ticks, nanoseconds = events.last_nanoseconds;
    if (header.end_ticks > ticks) {
      ticks = header.end_ticks;
      nanoseconds = header.end_nanoseconds;
    }
    if (nanoseconds > header.start_nanoseconds + kLongEnough && ticks > start_) {
      scale_ = static_cast<double>(nanoseconds - header.start_nanoseconds) /
               static_cast<double>(ticks - start_);
    } else if (header.start_ticks != header.start_nanoseconds) {
      scale_ = ScaleOfThisMachine();
    }
  }
  // Never 0, which says that it is not known.
  std::uint64_t At(std::uint64_t ticks) const {
    const std::uint64_t passed = ticks > start_ ? ticks - start_ : 0;
    return 1 + static_cast<std::uint64_t>(static_cast<double>(passed) * scale_);
  }
  // The ticks at a time after the start of the recording.
  std::uint64_t TicksAfter(std::uint64_t nanoseconds) const {
    return start_ + static_cast<std::uint64_t>(static_cast<double>(nanoseconds) / scale_);
  }

 private:
  static constexpr std::uint64_t kLongEnough = 50'000'000;

  static double ScaleOfThisMachine() {
    const std::uint64_t ticks = platform::ReadCounter(), nanoseconds = Nanoseconds();
    timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&pause, nullptr);
    return static_cast<double>(Nanoseconds() - nanoseconds) /
           static_cast<double>(platform::ReadCounter() - ticks);
  }

  std::uint64_t start_;
  double scale_ = 1;
};

class Objects {
 public:
  Objects(const std::filesystem::path& stem, const Header& header, const Clock& clock)
      : clock_(clock),
        is_sampled_(header.sample_bytes != 0),
        births_(stem.string() + ".births", "births",
                "nanoseconds bytes size usable_size alignment operation thread site resized_from "
                "address region"),
        deaths_(stem.string() + ".deaths", "deaths",
                "id free_nanoseconds free_bytes free_thread free_site free_operation"),
        switches_(stem.string() + ".switches", "switches", "nanoseconds bytes off"),
        regions_(stem),
        changes_(ReadChanges(stem.parent_path(), header.start_nanoseconds)),
        start_(header.start_nanoseconds) {
    totals.has_switch = !changes_.empty();
    NextChange();
  }

  void Add(const Event& event) {
    ++totals.events;
    while (event.time > next_change_) ChangePower();
    // A thread can learn late that nothing is recorded. Of a sample each death is seen.
    if (is_off_ && !(is_sampled_ && event.kind == kDeath)) return;
    switch (event.kind) {
      case kSkipped:
        totals.allocated_bytes += event.bytes;
        break;
      case kDeath:
        Die(event);
        break;
      case kOfRegion:
        AddOfRegion(event);
        break;
      default:
        BeBorn(event);
    }
  }

  // Changes up to the end, and the ends of all tables.
  void Finish(std::uint64_t end_ticks) {
    while (end_ticks >> kTickShift > next_change_) ChangePower();
    births_.Finish();
    deaths_.Finish();
    switches_.Finish();
    regions_.Finish();
  }

  Totals totals;

 private:
  static constexpr std::uint64_t kLatest = 4096 >> kTickShift;  // a microsecond or two

  void NextChange() {
    next_change_ = ~std::uint64_t{0};
    if (changes_used_ == changes_.size()) return;
    const PowerChange& next = changes_[changes_used_];
    const std::uint64_t ticks =
        next.ticks != 0 ? next.ticks : clock_.TicksAfter(next.nanoseconds - start_);
    next_change_ = ticks >> kTickShift;
  }

  // Whether what is alive now is ever freed is not seen, but for a sample.
  void ChangePower() {
    const PowerChange& change = changes_[changes_used_++];
    is_off_ = change.is_off;
    switches_.Add({clock_.At(next_change_ << kTickShift), totals.allocated_bytes, is_off_});
    if (is_off_ && !is_sampled_) {
      live_.Clear();
      own_.Clear();
      regions_.Forget();
      moved_.clear();
      replaced_.clear();
      live_bytes_ = live_objects_ = 0;
    }
    NextChange();
  }

  void AddOfRegion(const Event& event) {
    const Moment now = {clock_.At(event.time << kTickShift), totals.allocated_bytes};
    const auto die = [&](const Region::Member& member) {
      LiveObject* const object = live_.Find(member.address);
      if (object != nullptr && object->id == member.id) End(object, event, kByRegion);
    };
    switch (event.region_event) {
      case kCreated:
        regions_.Create(event.region, event.parent, now, event.stack);
        break;
      case kAllocated:
        BeBorn(event);
        break;
      case kFreed:
        if (LiveObject* const object = live_.Find(event.address); object != nullptr)
          End(object, event, kByFree);
        else
          ++totals.unknown_frees;
        break;
      case kCleared:
        regions_.Clear(event.region, now, die);
        break;
      case kDestroyed:
        regions_.Destroy(event.region, now, die);
        break;
      case kOwnOfRegion:
        if (own_.Find(event.address) == nullptr) own_.Insert({event.address, 0, 0, 0, 0});
        break;
    }
  }

  struct Moved {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
  };

  void Die(const Event& event) {
    if (LiveObject* const own = own_.Find(event.address); own != nullptr) return own_.Remove(own);
    if (!replaced_.empty() && WasReplaced(event)) return;
    LiveObject* const object = live_.Find(event.address);
    if (object == nullptr) {
      ++totals.unknown_frees;
      return;
    }
    if (event.moved) moved_[event.thread] = {object->id, object->bytes};
    End(object, event, event.moved ? kByRealloc : kByFree);
  }

  // A processor may look at its counter a little too early: the birth of an object on one thread
  // can then seem to come before the death, on another, of the one whose place it took.
  bool WasReplaced(const Event& event) {
    const auto found = replaced_.find(event.address);
    if (found == replaced_.end()) return false;
    const bool is_late = event.time - found->second <= kLatest;
    replaced_.erase(found);
    if (is_late) --totals.reused;
    return is_late;
  }

  void End(LiveObject* object, const Event& event, FreeOperation operation) {
    deaths_.Add({object->id, clock_.At(event.time << kTickShift), totals.allocated_bytes,
                 event.thread, event.stack, operation});
    if (object->region != 0) regions_.Remove(object->region);
    live_bytes_ -= object->bytes;
    --live_objects_;
    live_.Remove(object);
  }

  void BeBorn(const Event& event) {
    LiveObject* const before = live_.Find(event.address);
    if (before != nullptr && before->region != 0) {
      // A library gives the memory of a region back before the end of the region can be told.
      End(before, event, kByRegion);
    } else if (before != nullptr) {
      ++totals.reused;
      replaced_[event.address] = event.time;
      End(before, event, kByFree);
    }
    const Moved moved = event.kind == kRealloc ? std::exchange(moved_[event.thread], {}) : Moved{};
    const std::uint64_t before_it = is_sampled_ ? 0 : moved.bytes;
    totals.allocated_bytes += event.bytes > before_it ? event.bytes - before_it : 0;
    ++totals.objects;
    const LiveObject object = {event.address, totals.objects, event.bytes, event.time,
                               event.region};
    live_.Insert(object);
    const std::uint64_t region = event.region != 0 ? regions_.Add(event.region, object, live_) : 0;
    live_bytes_ += event.bytes;
    ++live_objects_;
    totals.max_live_bytes = std::max(totals.max_live_bytes, live_bytes_);
    totals.max_live_objects = std::max(totals.max_live_objects, live_objects_);
    births_.Add({clock_.At(event.time << kTickShift), totals.allocated_bytes, event.bytes,
                 event.usable, event.alignment, OperationOf(event.kind), event.thread, event.stack,
                 moved.id, event.address, region});
  }

  const Clock& clock_;
  const bool is_sampled_;  // then the bytes between the objects do not know of resizes
  TableWriter<11> births_;
  TableWriter<6> deaths_;
  TableWriter<3> switches_;
  LiveObjects live_;
  LiveObjects own_;  // of region libraries, which the trace leaves out
  Regions regions_;
  std::vector<PowerChange> changes_;
  std::size_t changes_used_ = 0;
  std::uint64_t start_;            // of the recording, in nanoseconds
  std::uint64_t next_change_ = 0;  // when
  bool is_off_ = false;
  std::uint64_t live_bytes_ = 0, live_objects_ = 0;
  std::map<std::uint32_t, Moved> moved_;             // by thread: until the realloc's birth
  std::map<std::uint64_t, std::uint64_t> replaced_;  // by address: when
};

}  // namespace

Totals WriteObjects(const std::filesystem::path& stem, const Header& header) {
  const Input input(stem.string() + ".events");
  Events events(input);
  const Clock clock(header, events);
  Objects objects(stem, header, clock);
  Event event;
  while (events.Next(event)) objects.Add(event);
  const std::uint64_t end = header.ending != kRunning ? header.end_ticks : events.last_ticks;
  objects.Finish(end);
  Totals& totals = objects.totals;
  totals.threads = events.threads;
  totals.damaged = events.damaged;
  totals.nanoseconds = clock.At(end);
  return totals;
}

}  // namespace tare::recorder
