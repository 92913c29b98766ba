#include "objects.hpp"

#include <time.h>

#include <cmath>
#include <iostream>
#include <map>

#include "events.hpp"
#include "live.hpp"
#include "table.hpp"

namespace tare::recorder {
namespace {

// Operations in the order in which tare/trace.py has their names.
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
    default:
      return 0;
  }
}

std::uint64_t Ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

std::uint64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
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

 private:
  static constexpr std::uint64_t kLongEnough = 50'000'000;

  static double ScaleOfThisMachine() {
    const std::uint64_t ticks = Ticks(), nanoseconds = Nanoseconds();
    timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
    nanosleep(&pause, nullptr);
    return static_cast<double>(Nanoseconds() - nanoseconds) / static_cast<double>(Ticks() - ticks);
  }

  std::uint64_t start_;
  double scale_ = 1;
};

class Objects {
 public:
  Objects(const std::filesystem::path& stem, const Header& header, const Clock& clock)
      : clock_(clock),
        is_sampled_(header.sample_bytes != 0),
        births_(stem, "births",
                "nanoseconds bytes size usable_size alignment operation thread site resized_from "
                "address"),
        deaths_(stem, "deaths", "id free_nanoseconds free_bytes free_thread free_site") {}

  void Add(const Event& event) {
    ++totals.events;
    switch (event.kind) {
      case kSkipped:
        totals.allocated_bytes += event.bytes;
        break;
      case kDeath:
        Die(event);
        break;
      default:
        BeBorn(event);
    }
  }

  void Finish() {
    births_.Finish();
    deaths_.Finish();
  }

  Totals totals;

 private:
  static constexpr std::uint64_t kLatest = 4096 >> kTickShift;  // a microsecond or two

  struct Moved {
    std::uint64_t id = 0;
    std::uint64_t bytes = 0;
  };

  void Die(const Event& event) {
    if (!replaced_.empty() && WasReplaced(event)) return;
    LiveObject* const object = live_.Find(event.address);
    if (object == nullptr) {
      ++totals.unknown_frees;
      return;
    }
    if (event.moved) moved_[event.thread] = {object->id, object->bytes};
    End(object, event);
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

  void End(LiveObject* object, const Event& event) {
    deaths_.Add({object->id, clock_.At(event.time << kTickShift), totals.allocated_bytes,
                 event.thread, event.stack});
    live_bytes_ -= object->bytes;
    --live_objects_;
    live_.Remove(object);
  }

  void BeBorn(const Event& event) {
    if (LiveObject* const before = live_.Find(event.address); before != nullptr) {
      ++totals.reused;
      replaced_[event.address] = event.time;
      End(before, event);
    }
    const Moved moved = event.kind == kRealloc ? std::exchange(moved_[event.thread], {}) : Moved{};
    const std::uint64_t before_it = is_sampled_ ? 0 : moved.bytes;
    totals.allocated_bytes += event.bytes > before_it ? event.bytes - before_it : 0;
    ++totals.objects;
    live_.Insert({event.address, totals.objects, event.bytes, event.time});
    live_bytes_ += event.bytes;
    ++live_objects_;
    totals.max_live_bytes = std::max(totals.max_live_bytes, live_bytes_);
    totals.max_live_objects = std::max(totals.max_live_objects, live_objects_);
    births_.Add({clock_.At(event.time << kTickShift), totals.allocated_bytes, event.bytes,
                 event.usable, event.alignment, OperationOf(event.kind), event.thread, event.stack,
                 moved.id, event.address});
  }

  const Clock& clock_;
  const bool is_sampled_;  // then the bytes between the objects do not know of resizes
  Table<10> births_;
  Table<5> deaths_;
  LiveObjects live_;
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
  objects.Finish();
  Totals& totals = objects.totals;
  totals.threads = events.threads;
  totals.damaged = events.damaged;
  const std::uint64_t end = header.ending == kExit ? header.end_ticks : events.last_ticks;
  totals.nanoseconds = clock.At(end);
  return totals;
}

}  // namespace tare::recorder
