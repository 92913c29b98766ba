// The counters of a process: a Header of the layer, and behind it what the layer likes, in a file
// that is mapped and shared. Without a folder for the file they are kept in memory of the process,
// where they are lost at its end.
//
// A Header has the members magic, process, parent, forked, uncounted and names, and says what is
// written into the first as kMagic, how long the file is as kFileBytes, and how much of it is on
// the disk at once as kFilledBytes.

#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "inner.hpp"
#include "shared_file.hpp"
#include "system.hpp"

namespace tare {

// nullptr without memory. `reported` says whether all is as asked.
template <typename Header>
Header* OpenCounters(const char* folder, bool forked, bool& reported) {
  void* pages =
      folder == nullptr ? nullptr : MapSparseFile(folder, Header::kFileBytes, Header::kFilledBytes);
  reported = pages != nullptr || folder == nullptr;
  if (pages == nullptr) pages = MapPages(Header::kFileBytes);
  if (pages == nullptr) return nullptr;
  auto* const header = static_cast<Header*>(pages);
  header->process = static_cast<std::uint64_t>(getpid());
  header->parent = static_cast<std::uint64_t>(getppid());
  header->forked = forked;
  header->magic = Header::kMagic;
  return header;
}

// Those of this process, its own also after a fork; nullptr without memory. `process` has the
// members counters_folder, header and header_of_parent.
template <typename Process>
auto OwnHeader(Process& process) -> decltype(process.header) {
  using Own = std::remove_pointer_t<decltype(process.header)>;
  if (process.header != nullptr && !process.header_of_parent) return process.header;
  Own* const before = process.header;
  bool reported = false;
  Own* const header = OpenCounters<Own>(process.counters_folder, before != nullptr, reported);
  if (before != nullptr) {
    if (!reported) before->uncounted.fetch_add(1, std::memory_order_relaxed);
    if (header != nullptr) memcpy(header->names, before->names, sizeof header->names);
    munmap(before, Own::kFileBytes);
  }
  process.header = header;
  process.header_of_parent = false;
  return header;
}

// Which files hold the inner allocator: what the process shows of it.
template <typename Header>
void ShowInner(Header& header, const Inner& inner) {
  constexpr std::size_t kHalf = sizeof header.names / 2;
  strncpy(header.names, FileOf(inner.malloc), kHalf - 1);
  strncpy(header.names + kHalf, FileOf(inner.free), kHalf - 1);
}

}  // namespace tare
