// Superblocks of one holder: lists by size class and by how full they are.

#pragma once

#include <array>

#include "tare/layers/size_classes.hpp"
#include "tare/layers/superblock.hpp"

namespace tare::layers {

template <ClassesOfSizes Classes, std::size_t kBytes>
class SuperblockLists {
 public:
  using Block = Superblock<kBytes>;

  std::size_t UsedBytes() const { return used_; }
  std::size_t HeldBytes() const { return held_; }

  void Insert(Block* block) {
    held_ += kBytes;
    used_ += block->UsedBytes();
    Link(block);
  }

  void Remove(Block* block) {
    Unlink(block, GroupOf(block));
    held_ -= kBytes;
    used_ -= block->UsedBytes();
  }

  // nullptr if all of the class are full.
  void* Allocate(std::size_t number) {
    Block* const block = Fullest(number);
    if (block == nullptr) return nullptr;
    const std::size_t group = GroupOf(block);
    void* const object = block->Allocate();
    used_ += block->ObjectBytes();
    Regroup(block, group);
    return object;
  }

  void Free(Block* block, void* object) {
    const std::size_t group = GroupOf(block);
    block->Free(object);
    used_ -= block->ObjectBytes();
    Regroup(block, group);
  }

  // The fullest of a class that is not full.
  Block* Fullest(std::size_t number) {
    for (std::size_t group = kGroups - 1; group-- > 0;)
      if (lists_[number][group] != nullptr) return lists_[number][group];
    return nullptr;
  }

  // One of no objects, of any class.
  Block* Empty() { return OfGroup(0); }

  // One of the emptiest group there is, of any class.
  Block* Emptiest() {
    for (std::size_t group = 0; group < kGroups; ++group)
      if (Block* const block = OfGroup(group)) return block;
    return nullptr;
  }

 private:
  static constexpr std::size_t kGroups = 6;  // empty, quarters, full

  static std::size_t GroupOf(const Block* block) {
    if (block->Used() == 0) return 0;
    return 1 + 4 * block->Used() / block->Capacity();
  }

  Block* OfGroup(std::size_t group) {
    for (const auto& lists : lists_)
      if (lists[group] != nullptr) return lists[group];
    return nullptr;
  }

  Block*& ListOf(const Block* block, std::size_t group) {
    return lists_[Classes::ClassOf(block->ObjectBytes())][group];
  }

  void Regroup(Block* block, std::size_t before) {
    if (GroupOf(block) == before) return;
    Unlink(block, before);
    Link(block);
  }

  void Link(Block* block) {
    Block*& list = ListOf(block, GroupOf(block));
    block->previous = nullptr;
    block->next = list;
    if (list != nullptr) list->previous = block;
    list = block;
  }

  void Unlink(Block* block, std::size_t group) {
    (block->previous != nullptr ? block->previous->next : ListOf(block, group)) = block->next;
    if (block->next != nullptr) block->next->previous = block->previous;
  }

  std::array<std::array<Block*, kGroups>, Classes::kCount> lists_ = {};
  std::size_t used_ = 0;
  std::size_t held_ = 0;
};

}  // namespace tare::layers
