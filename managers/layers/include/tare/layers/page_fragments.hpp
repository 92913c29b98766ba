// Haertel's way: whole pages, found by a walk over free runs of pages in order of address, and
// joined; or fragments, by which a page is cut into one power of two. A table beside the heap says
// what each page is, so that objects have nothing before them.

#pragma once

#include <array>
#include <bit>

#include "tare/layers/page_table.hpp"

namespace tare::layers {

template <RisingSource Source>
class PageFragments {
 public:
  void* Allocate(std::size_t bytes) {
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - (bytes != 0)));
    if (power >= kPagePower) return pages_.Allocate(bytes);
    const std::size_t number = power < kLeastPower ? kLeastPower : power;
    if (lists_[number] == nullptr && !Fill(number)) return nullptr;
    Fragment* const fragment = lists_[number];
    Unlink(fragment, number);
    --pages_.Of(fragment).free_fragments;
    return fragment;
  }

  void Free(void* object) {
    Page& page = pages_.Of(object);
    if (page.power == 0) return pages_.Free(object);
    Link(static_cast<Fragment*>(object), page.power);
    if (++page.free_fragments == kPageBytes >> page.power) FreePage(object, page.power);
  }

  std::size_t Size(void* object) {
    const Page& page = pages_.Of(object);
    return page.power == 0 ? page.pages * kPageBytes : std::size_t{1} << page.power;
  }

 private:
  struct Fragment {
    Fragment* next;
    Fragment* previous;
  };
  using Page = typename PageTable<Source>::Page;

  static constexpr std::size_t kPageBytes = PageTable<Source>::kPageBytes;
  static constexpr std::size_t kPagePower = std::bit_width(kPageBytes) - 1;
  static constexpr std::size_t kLeastPower = 4;

  void Link(Fragment* fragment, std::size_t power) {
    *fragment = {lists_[power], nullptr};
    if (fragment->next != nullptr) fragment->next->previous = fragment;
    lists_[power] = fragment;
  }

  void Unlink(Fragment* fragment, std::size_t power) {
    (fragment->previous != nullptr ? fragment->previous->next : lists_[power]) = fragment->next;
    if (fragment->next != nullptr) fragment->next->previous = fragment->previous;
  }

  template <typename Call>
  void ForEachFragment(char* page, std::size_t power, Call call) {
    for (std::size_t at = 0; at < kPageBytes; at += std::size_t{1} << power)
      call(reinterpret_cast<Fragment*>(page + at), power);
  }

  bool Fill(std::size_t power) {
    auto* const memory = static_cast<char*>(pages_.Allocate(kPageBytes));
    if (memory == nullptr) return false;
    Page& page = pages_.Of(memory);
    page.power = static_cast<std::uint32_t>(power);
    page.free_fragments = static_cast<std::uint32_t>(kPageBytes >> power);
    ForEachFragment(memory, power, [this](auto... given) { Link(given...); });
    return true;
  }

  void FreePage(void* object, std::size_t power) {
    char* const memory =
        static_cast<char*>(object) - reinterpret_cast<std::uintptr_t>(object) % kPageBytes;
    ForEachFragment(memory, power, [this](auto... given) { Unlink(given...); });
    pages_.Of(memory).power = 0;
    pages_.Free(memory);
  }

  PageTable<Source> pages_;
  std::array<Fragment*, kPagePower> lists_ = {};
};

}  // namespace tare::layers
