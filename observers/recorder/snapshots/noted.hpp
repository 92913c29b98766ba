// What is noted while the program runs, for the snapshots: who made which mapping, which threads
// allocate. A child of a fork has it in common with its parent.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::recorder::snapshot {

class Writer;

// The mappings that are there without a name, when it is first called: before the allocator's first
// operation.
void NoteStart();

// This thread is one that allocates.
void NoteThread();

// A mapping of the recorder's, or one that `call` made.
void NoteOwn(std::uint64_t address, std::size_t bytes);
void NoteMapping(std::uint64_t address, std::size_t bytes, const void* call);

void PutNoted(Writer& writer);

}  // namespace tare::recorder::snapshot
