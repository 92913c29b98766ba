// The call stacks of a process as a tree: a node is a call and the node of its caller. Each is
// written once, and found again by a table.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <mutex>

#include "known_stacks.hpp"
#include "process.hpp"
#include "signals.hpp"
#include "tare/platform/loaded_objects.hpp"
#include "unwinding/rules.hpp"

namespace tare::recorder {

// A program that has more stacks gets some of them more than once; so memory stays bounded.
inline constexpr std::size_t kMostKnownNodes = 1 << 20;
inline constexpr std::size_t kFirstNodes = 1 << 12;
inline constexpr std::size_t kNodesInPart = kPart / sizeof(Node);
inline constexpr std::size_t kMostRanges = 1024;

struct KnownNode {
  std::atomic<std::uint64_t> call;
  std::atomic<std::uint32_t> caller;
  std::atomic<std::uint32_t> number;  // 0: no node
};

// A power of two of places, the first of which starts here.
struct NodeTable {
  std::size_t places;
  KnownNode* nodes;
};

struct Stacks {
  RuleCache rules;
  // Changes when code or a stack goes away: what was known by address is then not true any more.
  std::atomic<std::uint32_t> generation;
  KnownStacks known_stacks;

  std::atomic<NodeTable*> table;
  SpinLock lock;  // of the rest
  NodeTable tables[32];
  std::size_t tables_used;
  std::size_t known;
  std::uint32_t nodes;
  Node* part;
  char* python_part;
  std::uint64_t python_bytes;
  struct Range {
    std::uintptr_t start, end;
  } ranges[kMostRanges];
  std::size_t ranges_used;
};

inline Stacks* MapStacks() { return static_cast<Stacks*>(MapOwn(sizeof(Stacks))); }

inline std::size_t PlaceOf(const NodeTable& table, std::uint32_t caller, std::uintptr_t call) {
  const std::uint64_t mixed = (call ^ (std::uint64_t{caller} << 32 | caller)) * 0x9E3779B97F4A7C15u;
  return static_cast<std::size_t>(mixed >> 32) & (table.places - 1);
}

// The number of the node, or 0. `place` is where it is or would be.
inline std::uint32_t FindNode(const NodeTable& table, std::uint32_t caller, std::uintptr_t call,
                              std::size_t& place) {
  for (place = PlaceOf(table, caller, call);; place = (place + 1) & (table.places - 1)) {
    const KnownNode& node = table.nodes[place];
    const std::uint32_t number = node.number.load(std::memory_order_acquire);
    if (number == 0) return 0;
    // In this order: a table that was left behind turns to zeros, and no call is at 0.
    if (node.caller.load(std::memory_order_acquire) == caller &&
        node.call.load(std::memory_order_relaxed) == call)
      return number;
  }
}

// A larger table, or an empty one. The one before stays in place for threads that look into it,
// and gives its memory back: they find nothing there, and come again.
inline NodeTable* NewTable(Stacks& stacks, std::size_t places) {
  if (stacks.tables_used == std::size(stacks.tables)) return nullptr;
  auto* const nodes = static_cast<KnownNode*>(MapOwn(places * sizeof(KnownNode)));
  if (nodes == nullptr) return nullptr;
  NodeTable* const table = &stacks.tables[stacks.tables_used++];
  *table = {places, nodes};
  return table;
}

inline void Insert(NodeTable& table, std::uint32_t caller, std::uintptr_t call,
                   std::uint32_t number) {
  std::size_t place;
  FindNode(table, caller, call, place);
  KnownNode& node = table.nodes[place];
  node.call.store(call, std::memory_order_relaxed);
  node.caller.store(caller, std::memory_order_relaxed);
  node.number.store(number, std::memory_order_release);
}

inline void GrowTable(Stacks& stacks, const NodeTable& before) {
  NodeTable* const table = NewTable(stacks, 2 * before.places);
  if (table == nullptr) return;
  for (std::size_t i = 0; i < before.places; ++i) {
    const KnownNode& node = before.nodes[i];
    const std::uint32_t number = node.number.load(std::memory_order_relaxed);
    if (number != 0)
      Insert(*table, node.caller.load(std::memory_order_relaxed),
             node.call.load(std::memory_order_relaxed), number);
  }
  stacks.table.store(table, std::memory_order_release);
  madvise(before.nodes, before.places * sizeof(KnownNode), MADV_DONTNEED);
}

// A row for the object that holds `call`, if there is none yet.
inline void NoteObject(Stacks& stacks, std::uintptr_t call) {
  for (std::size_t i = 0; i < stacks.ranges_used; ++i)
    if (call - stacks.ranges[i].start < stacks.ranges[i].end - stacks.ranges[i].start) return;
  platform::LoadedObject object;
  if (!platform::FindLoadedObject(call, object)) return;
  stacks.ranges_used = stacks.ranges_used < kMostRanges ? stacks.ranges_used + 1 : kMostRanges;
  stacks.ranges[stacks.ranges_used - 1] = {object.start, object.end};
  const char* const path = *object.name != '\0' ? object.name : process->header->program;
  Message row;
  row << std::uint64_t{stacks.nodes} << " " << std::uint64_t{object.start} << " "
      << std::uint64_t{object.end} << " " << std::uint64_t{object.bias} << " "
      << std::uint64_t{strlen(path)} << " " << path << "\n";
  const int fd = open(FileOfProcess(".modules").Text(),
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  row.Write(fd);
  close(fd);
}

inline bool NextPart(Stacks& stacks) {
  if (stacks.part != nullptr) munmap(stacks.part, kPart);
  const std::size_t offset = stacks.nodes * sizeof(Node);
  stacks.part = static_cast<Node*>(MapPart(FileOfProcess(".stacks").Text(), offset, kPart));
  if (stacks.part == nullptr) Lose(kNoRoom);
  return stacks.part != nullptr;
}

// The lock, but for a signal's handler that interrupted who holds it.
class LockStacks {
 public:
  explicit LockStacks(Stacks& stacks) : stacks_(stacks), is_interrupted_(locked_) {
    if (is_interrupted_) return;
    locked_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    stacks_.lock.lock();
  }
  ~LockStacks() {
    if (is_interrupted_) return;
    stacks_.lock.unlock();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    locked_ = false;
  }
  LockStacks(const LockStacks&) = delete;
  LockStacks& operator=(const LockStacks&) = delete;
  bool IsInterrupted() const { return is_interrupted_; }

 private:
  constinit static inline thread_local TARE_INITIAL_EXEC bool locked_ = false;
  Stacks& stacks_;
  const bool is_interrupted_;
};

// Instead of a caller, in the table alone: of what is known of Python code.
inline constexpr std::uint32_t kLinesOfPython = ~std::uint32_t{0};
inline constexpr std::uint32_t kRowsOfPython = kLinesOfPython - 1;

// The number that is known for `call` under `caller`, or 0.
inline std::uint32_t Find(const Stacks& stacks, std::uint32_t caller, std::uintptr_t call) {
  std::size_t place;
  const NodeTable* const table = stacks.table.load(std::memory_order_acquire);
  return table != nullptr ? FindNode(*table, caller, call, place) : 0;
}

// The table, with room for one more; nullptr where it has none. Under the lock.
inline NodeTable* TableWithRoom(Stacks& stacks) {
  NodeTable* table = stacks.table.load(std::memory_order_relaxed);
  if (table == nullptr) {
    table = NewTable(stacks, kFirstNodes);
    stacks.table.store(table, std::memory_order_release);
  }
  // A table that could not grow stays sparse.
  if (table == nullptr || stacks.known == kMostKnownNodes || stacks.known * 4 > table->places * 3)
    return nullptr;
  return table;
}

// Under the lock.
inline void Know(Stacks& stacks, std::uint32_t caller, std::uintptr_t call, std::uint32_t number) {
  NodeTable* const table = TableWithRoom(stacks);
  if (table == nullptr) return;
  Insert(*table, caller, call, number);
  if (++stacks.known * 2 > table->places) GrowTable(stacks, *table);
}

inline void Remember(Stacks& stacks, std::uint32_t caller, std::uintptr_t call,
                     std::uint32_t number) {
  const LockStacks guard(stacks);
  if (!guard.IsInterrupted() && Find(stacks, caller, call) == 0) Know(stacks, caller, call, number);
}

inline std::uint32_t AddNode(Stacks& stacks, std::uint32_t caller, std::uintptr_t call) {
  constexpr std::uint32_t kMostNodes = kRowsOfPython - 1;
  const LockStacks guard(stacks);
  if (guard.IsInterrupted()) return 0;
  if (const std::uint32_t found = Find(stacks, caller, call); found != 0) return found;
  if (stacks.nodes == kMostNodes) return 0;
  if (stacks.nodes % kNodesInPart == 0 && !NextPart(stacks)) return 0;
  if ((call & kPythonCall) == 0) NoteObject(stacks, call - 1);
  stacks.part[stacks.nodes % kNodesInPart] = {call, caller, 0};
  const std::uint32_t number = ++stacks.nodes;
  Know(stacks, caller, call, number);
  return number;
}

// The node of `call` under `caller`; 0 where it cannot be written.
inline std::uint32_t NodeOf(Stacks& stacks, std::uint32_t caller, std::uintptr_t call) {
  if (const std::uint32_t found = Find(stacks, caller, call); found != 0) [[likely]]
    return found;
  return AddNode(stacks, caller, call);
}

// Code went away, and other code can come in its place.
inline void ForgetCode(Stacks& stacks) {
  const BlockSignals blocked;
  const std::scoped_lock guard(stacks.lock);
  madvise(&stacks.rules, sizeof stacks.rules, MADV_DONTNEED);
  stacks.ranges_used = 0;
  stacks.known = 0;
  if (NodeTable* const table = stacks.table.load(std::memory_order_relaxed); table != nullptr)
    madvise(table->nodes, table->places * sizeof(KnownNode), MADV_DONTNEED);
  stacks.generation.fetch_add(1, std::memory_order_release);
}

// The program is about to unmap, move or replace these pages, or to forbid that they are read.
inline void NoteGone(const void* pages, std::size_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(pages);
  if (process == nullptr || process->stacks == nullptr ||
      !process->stacks->known_stacks.Overlap(start, start + bytes))
    return;
  process->stacks->known_stacks.Forget(process->stacks->generation);
}

}  // namespace tare::recorder
