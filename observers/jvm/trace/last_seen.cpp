// tare-jvm-last-seen STEM: moves the deaths of a raw recording of a JVM from the collections that
// found them to the last moments at which something showed that the objects were reachable.
//
// An object shows itself at its birth, as the source or the target of a store, when a pointer to it
// is overwritten, when it survives a forced collection, and as long as an object that points to it
// shows itself. That is Merlin (Hertz and others, 2002) with stores and collections for witnesses:
// a stack is none, so an object that only a stack still held died later, at most at the collection.

#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../../tables/reader.hpp"
#include "../../tables/writer.hpp"

namespace {

using tare::TableReader;
using tare::TableWriter;

constexpr uint64_t kStaticMemory = 0;
constexpr unsigned kNumberBits = 32;

struct Moment {
  uint64_t event = 0;
  uint64_t bytes = 0;
};

struct Object {
  uint64_t birth = 0;
  Moment seen;
  std::vector<uint32_t> places;  // where its pointers lie, in words
  bool is_dead = false;
};

class Heap {
 public:
  void bear(uint64_t number, Moment now) {
    objects_[number] = {.birth = now.event, .seen = now, .places = {}};
  }

  void store(uint64_t source, uint64_t offset, uint64_t target, Moment now) {
    // Of static memory the offset is the number of a field.
    const auto place =
        static_cast<uint32_t>(source == kStaticMemory ? offset : offset / kWordBytes);
    see(source, now);
    see(target, now);
    const auto [field, is_new] = fields_.try_emplace(source << kNumberBits | place, target);
    if (is_new) {
      if (const auto found = objects_.find(source); found != objects_.end())
        found->second.places.push_back(place);
    } else {
      see(field->second, now);
      field->second = target;
    }
  }

  void survive(Moment mark) { last_mark_ = mark; }

  // `dead` were found at once: what points to one of them is among them, or was found before. Gives
  // to `take` the number of each, and when it was seen last.
  template <typename Take>
  void bury(const std::vector<uint64_t>& dead, Take take) {
    using Known =
        std::pair<uint64_t, uint64_t>;  // the event at which an object was seen, the object
    std::priority_queue<Known> latest_first;
    for (const uint64_t number : dead) {
      Object& object = objects_[number];
      object.is_dead = true;
      if (object.birth < last_mark_.event) see(number, last_mark_);
      latest_first.emplace(object.seen.event, number);
    }
    while (!latest_first.empty()) {
      const auto [event, number] = latest_first.top();
      latest_first.pop();
      const Object& object = objects_[number];
      if (event != object.seen.event) continue;
      for (const uint32_t place : object.places) {
        const uint64_t target = fields_[number << kNumberBits | place];
        // One that lives on hands this on when it is dead.
        if (see(target, object.seen) && objects_[target].is_dead)
          latest_first.emplace(event, target);
      }
    }
    for (const uint64_t number : dead) {
      const Object& object = objects_[number];
      take(number, object.seen);
      for (const uint32_t place : object.places) fields_.erase(number << kNumberBits | place);
      objects_.erase(number);
    }
  }

 private:
  static constexpr uint64_t kWordBytes = 8;

  // Whether that is news.
  bool see(uint64_t number, Moment moment) {
    const auto found = objects_.find(number);
    if (found == objects_.end() || found->second.seen.event >= moment.event) return false;
    found->second.seen = moment;
    return true;
  }

  std::unordered_map<uint64_t, Object> objects_;
  std::unordered_map<uint64_t, uint64_t> fields_;  // targets, by source and place
  Moment last_mark_;
};

void move_deaths(const std::string& stem) {
  TableReader births(stem + ".births", {"instructions", "bytes"});
  TableReader pointers(stem + ".pointers", {"instructions", "source", "offset", "target"});
  TableReader deaths(stem + ".deaths", {"unreachable_instructions", "unreachable_bytes", "id"});
  TableReader marks(stem + ".marks", {"instructions", "bytes"});
  const std::string target = stem + ".moved.deaths";
  TableWriter<4> moved(target, "deaths",
                       "id unreachable_instructions unreachable_bytes free_bytes");
  Heap heap;
  uint64_t objects = 0;
  uint64_t bytes = 0;
  constexpr uint64_t kNever = UINT64_MAX;
  const auto time = [](const TableReader& table) { return table.has_row() ? table[0] : kNever; };
  while (deaths.has_row()) {
    const uint64_t birth = time(births);
    const uint64_t store = time(pointers);
    const uint64_t death = time(deaths);
    if (birth < store && birth < death) {
      bytes = births[1];
      heap.bear(++objects, {birth, bytes});
      births.advance();
    } else if (store < death) {
      heap.store(pointers[1], pointers[2], pointers[3], {store, bytes});
      pointers.advance();
    } else {
      while (marks.has_row() && marks[0] < death) {
        heap.survive({marks[0], marks[1]});
        marks.advance();
      }
      std::vector<uint64_t> dead;
      for (; deaths.has_row() && deaths[0] == death; deaths.advance()) dead.push_back(deaths[2]);
      heap.bury(dead, [&](uint64_t number, Moment seen) {
        // It was there at that event, and is no more at the next.
        moved.Add({number, seen.event + 1, seen.bytes, 0});
      });
    }
  }
  moved.Finish();
  std::filesystem::rename(target, stem + ".deaths");
}

}  // namespace

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "tare-jvm-last-seen STEM\n";
    return 2;
  }
  try {
    move_deaths(words[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
