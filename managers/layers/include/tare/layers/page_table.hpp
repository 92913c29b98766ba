// Runs of whole pages, and a table beside them with an entry for each page. Free runs form a ring
// in order of address; a search begins where the last one ended, and takes the first that fits.

#pragma once

#include <cstring>
#include <utility>

#include "tare/layers/pages.hpp"

namespace tare::layers {

template <RisingSource Source>
class PageTable : private Source {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  // Of the first page of a run; of each page that is cut into fragments.
  struct Page {
    std::uint32_t power;  // of two, of the fragments; 0: none
    std::uint32_t free_fragments;
    std::size_t pages;
    std::size_t next;  // free runs
    std::size_t previous;
  };

  PageTable() = default;
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;
  ~PageTable() {
    if (table_ != nullptr) Pages().Give(table_, capacity_ * sizeof(Page));
  }

  void* Allocate(std::size_t bytes) {
    if (bytes > SIZE_MAX / 4) return nullptr;
    const std::size_t pages = RoundUp(bytes, kPageBytes) / kPageBytes;
    const std::size_t run = FindRun(pages);
    if (run == kRing && !AddRun(pages)) return nullptr;
    return Cut(run == kRing ? rover_ : run, pages);
  }

  void Free(void* object) {
    std::size_t run = NumberOf(object);
    while (rover_ > run) rover_ = table_[rover_].previous;
    while (table_[rover_].next != kRing && table_[rover_].next < run) rover_ = table_[rover_].next;
    Insert(run, rover_);
    if (const std::size_t next = table_[run].next; run + table_[run].pages == next) Join(run, next);
    const std::size_t before = table_[run].previous;
    if (before != kRing && before + table_[before].pages == run) Join(before, run);
  }

  Page& Of(void* object) { return table_[NumberOf(object)]; }

 private:
  static constexpr std::size_t kRing = 0;  // an entry that stands for no page
  static constexpr std::size_t kFirstCapacity = 1 << 10;

  std::size_t NumberOf(const void* object) const {
    return static_cast<std::size_t>(static_cast<const char*>(object) - base_) / kPageBytes + 1;
  }

  // The ring's entry if there is none.
  std::size_t FindRun(std::size_t pages) {
    if (table_ == nullptr) return kRing;
    const std::size_t start = rover_;
    do {
      if (rover_ != kRing && table_[rover_].pages >= pages) return rover_;
      rover_ = table_[rover_].next;
    } while (rover_ != start);
    return kRing;
  }

  void* Cut(std::size_t run, std::size_t pages) {
    Page& page = table_[run];
    rover_ = page.previous;
    if (const std::size_t rest = page.pages - pages; rest != 0) {
      table_[run + pages].pages = rest;
      Insert(run + pages, run);
    }
    Remove(run);
    page.power = 0;
    page.pages = pages;
    return base_ + (run - 1) * kPageBytes;
  }

  // Of what is new, joined with a free run before it.
  bool AddRun(std::size_t pages) {
    auto* const memory = static_cast<char*>(Source::Take(pages * kPageBytes));
    if (memory == nullptr) return false;
    if (base_ == nullptr) base_ = memory;
    const std::size_t run = NumberOf(memory);
    if (!Cover(run + pages)) {
      Source::Give(memory, pages * kPageBytes);
      return false;
    }
    table_[run].pages = pages;
    Free(memory);
    rover_ = table_[kRing].previous;
    return true;
  }

  bool Cover(std::size_t entries) {
    if (entries <= capacity_) return true;
    std::size_t capacity = capacity_ == 0 ? kFirstCapacity : capacity_;
    while (capacity < entries) capacity *= 2;
    auto* const table = static_cast<Page*>(Pages().Take(capacity * sizeof(Page)));
    if (table == nullptr) return false;
    if (table_ != nullptr) {
      memcpy(table, table_, capacity_ * sizeof(Page));
      Pages().Give(table_, capacity_ * sizeof(Page));
    }
    table_ = table;
    capacity_ = capacity;
    return true;
  }

  void Insert(std::size_t run, std::size_t before) {
    const std::size_t next = table_[before].next;
    table_[run].next = next;
    table_[run].previous = before;
    table_[before].next = run;
    table_[next].previous = run;
  }

  void Remove(std::size_t run) {
    table_[table_[run].previous].next = table_[run].next;
    table_[table_[run].next].previous = table_[run].previous;
  }

  void Join(std::size_t run, std::size_t next) {
    table_[run].pages += table_[next].pages;
    if (rover_ == next) rover_ = run;
    Remove(next);
  }

  char* base_ = nullptr;
  Page* table_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t rover_ = kRing;
};

}  // namespace tare::layers
