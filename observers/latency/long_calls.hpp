// Where long calls come from: a line of text for each, in a file beside that of the histograms.
//
//   M START END BIAS PATH                    an object, before the first call of it
//   C OPERATION CAUSES BYTES TICKS CALL…     a long call, and its stack: return addresses, the
//                                            innermost first
//
// Numbers are decimal. A call is written whole or not at all, however the process ends.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "../recorder/unwinding/rules.hpp"
#include "../recorder/unwinding/step.hpp"
#include "format.hpp"
#include "process.hpp"

namespace tare::latency {

inline constexpr const char* kCallsEnding = ".calls";
inline constexpr std::size_t kDeepest = 32;
inline constexpr std::uint64_t kMostBytes = 8 << 20;

struct Stack {
  std::uintptr_t calls[kDeepest];
  std::size_t count;
};

// That of the program's call, without what is of this object. What is known of a stack can be gone
// at the next long call, so nothing of it is kept.
__attribute__((noinline)) inline Stack StackHere() {
  Stack stack{};
  const platform::Caller caller = platform::CallerHere();
  const recorder::Range range = recorder::MappingOf(caller.stack_pointer);
  platform::LoadedObject own{};
  platform::FindLoadedObject(reinterpret_cast<std::uintptr_t>(&StackHere), own);
  recorder::Place place = recorder::Place::Of(caller);
  do {
    const bool is_own = place.call - own.start < own.end - own.start;
    if (!is_own || stack.count > 0) stack.calls[stack.count++] = place.call;
  } while (stack.count < kDeepest &&
           recorder::StepUp(range, recorder::ReadRuleOf(place.call), place).is_there &&
           place.call != 0);
  return stack;
}

// Under the lock.
inline void AppendToCalls(const Message& row, std::uint64_t bytes) {
  if (process->called_bytes + bytes > kMostBytes || !FileMayReach(process->called_bytes + bytes))
    return;
  process->called_bytes += bytes;
  Message path;
  path << process->path << kCallsEnding;
  const int fd = open(path.Text(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  row.Write(fd);
  close(fd);
}

// Under the lock.
inline void NoteObject(std::uintptr_t call) {
  platform::LoadedObject object{};
  if (!platform::FindLoadedObject(call - 1, object)) return;
  for (std::size_t i = 0; i < process->objects; ++i)
    if (process->object_starts[i] == object.start) return;
  if (process->objects == kMostObjects) return;
  process->object_starts[process->objects++] = object.start;
  char path[kPathBytes] = "";
  if (*object.name != '\0')
    strncpy(path, object.name, sizeof path - 1);
  else if (readlink("/proc/self/exe", path, sizeof path - 1) < 0)
    return;
  Message row;
  row << "M " << std::uint64_t{object.start} << " " << std::uint64_t{object.end} << " "
      << std::uint64_t{object.bias} << " " << path << "\n";
  AppendToCalls(row, row.Bytes());
}

inline void WriteLong(Operation operation, std::uint32_t causes, std::size_t bytes,
                      std::uint64_t ticks) {
  const KeepErrno keep;
  const Stack stack = StackHere();
  Message row;
  row << "C " << std::uint64_t{operation} << " " << std::uint64_t{causes} << " "
      << std::uint64_t{bytes} << " " << ticks;
  for (std::size_t i = 0; i < stack.count; ++i) row << " " << std::uint64_t{stack.calls[i]};
  row << "\n";
  const recorder::BlockSignals blocked;
  const std::scoped_lock guard(process->lock);
  if (process->header == nullptr) return;
  for (std::size_t i = 0; i < stack.count; ++i) NoteObject(stack.calls[i]);
  AppendToCalls(row, row.Bytes());
}

}  // namespace tare::latency
